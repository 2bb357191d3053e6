"""Early stop: completes a job, if its spec asks for it, as soon as its loss has stopped falling.

Decides when to look and what is saved; the rule is in ``scheduler.core.operations.early_stop``. The job writes a
checkpoint and ends as in a preemption.
"""

import math
from collections.abc import Callable
from datetime import datetime

from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.core.operations.early_stop import is_settled
from scheduler.core.operations.time_left import time_left_s
from scheduler.live.servers.lost import attempt_ask
from scheduler.live.steps import for_each
from scheduler.models import Attempt, Job
from scheduler.models.job import AttemptKind
from scheduler.selectors.files.losses import losses_so_far

EVERY_S = 10.0


def early_check(tell: Callable[[set[str]], None], *, at: datetime) -> None:
    """Ask jobs with early stop whose loss has settled to end; ``tell`` gets the ids of servers to tell."""
    attempts = Attempt.objects.filter(
        job__state=JobState.RUNNING, job__spec__progress__early_stop=True, wanted="run", ended_at=None
    ).exclude(kind=AttemptKind.SMOKE)
    for_each(attempts.select_related("job").order_by("pk"), lambda attempt: tell(_ask_if_settled(attempt, at=at)))


def _ask_if_settled(attempt: Attempt, *, at: datetime) -> set[str]:
    job = attempt.job
    known = losses_so_far(job)
    if not is_settled([step for step, _ in known], [loss for _, loss in known]):
        return set()
    saved_gpu_s = _saved_gpu_s(job, attempt.num_gpus)
    step = int(known[-1][0]) if job.step is None else job.step
    data = {"step": step} | ({} if saved_gpu_s is None else {"saved_gpu_s": round(saved_gpu_s, 1)})
    told = attempt_ask(attempt.pk, rule=EndCause.EARLY_STOPPED, at=at, data=data)
    if told:
        Job.objects.filter(pk=job.pk).update(saved_gpu_s=saved_gpu_s)
    return set(told)


def _saved_gpu_s(job: Job, num_gpus: int) -> float | None:
    left_s = time_left_s(step=job.step, total_steps=job.total_steps, steps_per_s=job.steps_per_s)
    return None if job.step is None or math.isinf(left_s) else left_s * num_gpus
