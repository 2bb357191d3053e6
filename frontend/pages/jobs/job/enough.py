"""The hint that a job has trained enough: its loss no longer falls; with the steps that are left and their cost.

Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads" (Philly), ATC 2019.
"""

import math
from dataclasses import dataclass

from frontend.components.formats import duration, number, percent
from frontend.pages.jobs.subject import Subject
from scheduler.core.model.lifecycle import JobState
from scheduler.core.operations.early_stop import TOLERANCE_FRAC, is_settled
from scheduler.core.operations.time_left import time_left_s
from scheduler.selectors.files.losses import losses_so_far


@dataclass(frozen=True, slots=True, kw_only=True)
class Enough:
    """The finding and what stopping now saves."""

    title: str
    sentence: str
    may_stop: bool


def enough_of(subject: Subject) -> Enough | None:
    """Return the hint for a running job whose fitted loss has stopped falling; None for every other."""
    if subject.state is not JobState.RUNNING or subject.job.spec["progress"].get("early_stop"):
        return None
    series, job = subject.series, subject.job
    told = [pair for pair in zip(series["step"], series["loss"], strict=True) if None not in pair]
    known = told or losses_so_far(job)
    if not is_settled([step for step, _ in known], [loss for _, loss in known]):
        return None
    step = number(known[-1][0] if job.step is None else job.step)
    return Enough(
        title="It has probably trained enough",
        sentence=f"Over the last fifth of its {step} steps the fitted loss fell by no more than "
        f"{percent(TOLERANCE_FRAC, 1)}.{_left(subject)}",
        may_stop="cancel" in subject.detail["actions"],
    )


def _left(subject: Subject) -> str:
    job = subject.job
    if not job.total_steps or job.step is None or job.step >= job.total_steps:
        return ""
    frac = 1.0 - job.step / job.total_steps
    left_s = time_left_s(step=job.step, total_steps=job.total_steps, steps_per_s=job.steps_per_s)
    cost = f", about {duration(left_s * job.num_gpus)} of {subject.device.one} time" if math.isfinite(left_s) else ""
    return f" {percent(frac)} of its steps are left{cost}."
