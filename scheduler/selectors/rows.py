"""What the rows of selectors are made of, and the rows of the selectors in this folder.

A row is JSON data with known keys: one ``TypedDict``, filled by one selector, read by pages, REST, frames and exports.
``Annotated`` carries what the type cannot say and the OpenAPI document needs: a sentence, a closed list of words, that
text is a time. ``scheduler.api.http.documents.document_of`` reads it; the type checker ignores it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

from scheduler.models.scenario import RunState, ScenarioState

# A JSON object whose keys are not known here: a spec as submitted, the data of an event, the numbers of a reason.
Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class OneOf:
    """Says of text that it is one of these words; ``blank``: or empty."""

    words: tuple[str, ...]
    blank: bool = False


@dataclass(frozen=True, slots=True)
class IsoTime:
    """Says of text that it is a time as ``selectors.times.iso`` writes it."""


def one_of(words: Iterable[str], *, blank: bool = False) -> OneOf:
    """Return the mark of a closed list of words, such as an enum of text."""
    return OneOf(tuple(str(word) for word in words), blank)


Moment = Annotated[str, IsoTime()]


class EventRow(TypedDict):
    """One thing that happened."""

    id: int  # text in REST
    number: Annotated[int | None, "1, 2, 3 ... within the job."]
    at: Moment
    kind: Annotated[str, "job_state, job_wait, job_wanted, server_state, quota, settings, ..."]
    actor: Annotated[str, 'User name, "scheduler", or "agent <server>".']
    job_id: str | None
    job_number: int | None
    job_name: str | None
    queue: str | None
    color_slot: int | None
    server: str | None
    old_state: str
    new_state: str
    reason: str
    data: Json


class NamedJob(TypedDict):
    """A job as far as the reader may see it; id and number are null for a job of another queue."""

    id: str | None
    number: int | None
    name: Annotated[str, '"another job" when you may not see it.']
    queue: Annotated[str, '"another queue" when you may not see it.']


class ShownJob(NamedJob):
    """The same with the colour of its queue."""

    color_slot: int


class TraceFileRow(TypedDict):
    """An uploaded trace."""

    id: str
    name: str
    owner: str
    bytes: int
    created_at: Moment
    scenarios: Annotated[int, "How many start from it; 0 before it may be deleted."]


class ScenarioRow(TypedDict):
    """A scenario without what it found."""

    id: str
    name: str
    owner: str
    state: Annotated[str, one_of(ScenarioState)]
    error: str
    created_at: Moment
    ended_at: Moment | None
    start: Json
    variants: Annotated[list[Json], "As asked, each with a `name`."]
    seeds: list[int]


class EarlyRow(TypedDict):
    """How a run went up to a moment of its replay: the latest that both it and the baseline have passed."""

    passed_s: Annotated[float, "Since the first job came."]
    come: Annotated[int, "Jobs that had come by then."]
    ended: Annotated[int, "Those of them that had ended."]
    wait_s: Annotated[float, "Mean time that they had waited without GPUs by then."]
    baseline_wait_s: Annotated[float | None, "The same of the first variant; null for itself, and until it is known."]


class ScenarioRunRow(TypedDict):
    """How far one run is."""

    variant: Annotated[int, "Place in the list of variants, from 0."]
    seed: int
    state: Annotated[str, one_of(RunState)]
    error: Annotated[str, "Why it failed."]
    frac: Annotated[float, "Share of its jobs that are done, 0 to 1."]
    done_jobs: int
    num_jobs: Annotated[int, "0 until its jobs are read."]
    attempts: Annotated[int, "Times that a worker took it."]
    cpu_s: Annotated[float, "CPU time it took, once completed."]
    early: Annotated[EarlyRow | None, "How it went so far; null until it is known, and of the cluster as it is now."]


class ScenarioRunDetail(ScenarioRunRow):
    """One run with its figures and curves."""

    summary: Json | None
    figures: Json | None
    costs: Annotated[Json, "CPU seconds of loading, simulating and drawing."]


class ScenarioProgress(TypedDict):
    """How far a scenario is."""

    id: str
    state: Annotated[str, one_of(ScenarioState)]
    error: Annotated[str, "Why it failed."]
    frac: Annotated[float, "Share of all its work that is done, 0 to 1."]
    runs_done: int
    num_runs: int
    silent: Annotated[bool, "Whether no worker has said for a while that it works on it."]
    elapsed_s: Annotated[float, "Since it was asked."]
    runs: list[ScenarioRunRow]


class MetricCell(TypedDict):
    """One metric of one variant."""

    mean: Annotated[
        float | None, "Over the seeds; null until a run has ended, and for a percentile of too few jobs to have one."
    ]
    half_width: Annotated[float | None, "Half the width of the 95 % interval of the mean; null below three seeds."]
    draws: Annotated[list[float], "What each seed gave, where there are two, which have no interval; else empty."]
    seeds: Annotated[int, "How many have ended."]


class MetricRow(TypedDict):
    """One metric."""

    key: Annotated[str, "Times are in seconds, shares from 0 to 1."]
    kind: Annotated[str, one_of(["time", "share", "number", "count"])]
    best: Annotated[str, one_of(["min", "max"], blank=True), "What is better; empty where neither is."]
    variants: Annotated[list[MetricCell], "By variant."]
    winner: Annotated[int | None, "Variant with the best mean."]
    sure: Annotated[bool | None, "Whether it beats every other one seed by seed beyond chance; null with one seed."]


class FidelityRow(TypedDict):
    """One figure of the past window: as it happened and as the simulator replays it."""

    key: str
    kind: Annotated[str, one_of(["time", "gpus"])]
    happened: float
    replayed: float
    error_frac: Annotated[float | None, "Their difference over what happened."]


class ScenarioDetail(ScenarioRow):
    """A scenario with its progress and what it found so far."""

    about: Annotated[str, "Its starting point in words."]
    warnings: Annotated[list[str], "What was left out or changed."]
    progress: ScenarioProgress
    metrics: list[MetricRow]
    fidelity: list[FidelityRow] | None
    doubts: Annotated[
        list[str],
        "Keys of `fidelity` in which the replay of what really happened is too far off to trust the answer.",
    ]
