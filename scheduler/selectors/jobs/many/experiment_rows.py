"""Rows of experiments and their configurations; ``experiments`` fills them."""

from datetime import datetime
from typing import Annotated, TypedDict

from scheduler.models.experiment import ExperimentState
from scheduler.selectors.rows import Json, one_of


class ConfigurationRow(TypedDict):
    """One configuration."""

    number: int
    values: Json
    job: Annotated[str, "ULID of its job."]
    job_number: int
    state: Annotated[str, "State of its job."]
    step: int | None
    loss: float | None
    loss_source: Annotated[
        str, "Of a loss that was not reported: its column and file, `loss in metrics.csv`; else empty."
    ]
    weight: Annotated[float, "Share of GPU time beside the others."]
    promise: Annotated[str, one_of(["promising", "opportunistic", "poor"])]
    chance: Annotated[float | None, "Of reaching the target; null before the first look."]
    heading_for: Annotated[float | None, "Loss at its end by the fitted curve."]
    gpu_hours: Annotated[float, "Of leases that have ended."]
    run_s: Annotated[float, "Run time of attempts that have ended, seconds."]
    curve: list[list[float]]


class ExperimentRow(TypedDict):
    """One experiment in a list."""

    id: str
    name: str
    queue: str
    color_slot: Annotated[int, "Colour of its queue on all pages."]
    owner: str
    state: Annotated[str, one_of(ExperimentState)]
    sampler: str
    configurations: int
    submitted: Annotated[int, "Configurations submitted so far."]
    target_loss: Annotated[float | None, "null: all configurations run to their end."]
    best_loss: Annotated[float | None, "The least of its jobs, reported or in their files."]
    best_loss_is_written: Annotated[bool, "Whether it was read from the files of a job that reported none."]
    created_at: datetime
    ended_at: datetime | None


class ExperimentDetail(ExperimentRow):
    """One experiment."""

    space: Json
    seed: int
    total_steps: int | None
    feedback_steps: int | None
    gpu_hours: Annotated[float, "Of all its jobs, leases that have ended."]
    unread: Annotated[int, "Jobs whose files are not all read for a loss yet."]
    members: list[ConfigurationRow]
