"""Opens the attempts that a round granted, and asks attempts to stop.

Each function is one step of one transaction, guarded against concurrent changes. Asking to stop closes no lease: that
happens in ``close.py`` once the attempt is known to be over.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypedDict

from django.db import transaction
from django.db.models import Max

from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.live.attempts.checkpoints import resume_from
from scheduler.live.attempts.close import attempt_close
from scheduler.live.attempts.leases import NewLease, attempt_retell, leases_create
from scheduler.live.attempts.retry import AttemptEnd
from scheduler.models import Attempt, Job
from scheduler.models.job import AttemptKind, AttemptState
from scheduler.services.jobs.profiles import measurements_begin
from scheduler.services.jobs.state import BATCH, Move, jobs_transition
from scheduler.services.secrets.use import uses_record


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAttempt:
    """One attempt that a round opens for a queued job."""

    attempt_id: str
    job: Job
    leases: tuple[NewLease, ...]
    epoch: int
    round_number: int
    reason_data: Mapping[str, Any] = field(default_factory=dict)  # JSON of the event


class StopReceipt(TypedDict, total=False):
    """Columns of an attempt that say why it was asked to stop, and for which job."""

    preempt_rule: str
    preempted_by: Job | None


@transaction.atomic
def attempts_open(news: Sequence[NewAttempt], *, generations: Mapping[str, int], at: datetime) -> list[Attempt]:
    """Give queued jobs their leases and new attempts that start from their latest checkpoints.

    A job that is no longer as the caller read it gets nothing. One whose secrets are gone fails at once.
    """
    moves = [Move(job=new.job, to=JobState.LAUNCHING, data=new.reason_data) for new in news]
    moved = {job.pk for job in jobs_transition(moves=moves, at=at, actor="scheduler", reason="granted")}
    opened: list[Attempt] = []
    for start in range(0, len(news), BATCH):
        batch = [new for new in news[start : start + BATCH] if new.job.pk in moved]
        opened += _open_batch(batch, generations=generations, at=at)
    refused = uses_record(opened, at=at)
    for attempt_id, detail in sorted(refused.items()):
        ending = AttemptEnd(cause=EndCause.SECRET_MISSING, detail=detail)
        attempt_close(attempt_id=attempt_id, ending=ending, at=at, actor="scheduler")
    return [attempt for attempt in opened if attempt.pk not in refused]


def _open_batch(news: Sequence[NewAttempt], *, generations: Mapping[str, int], at: datetime) -> list[Attempt]:
    earlier = Attempt.objects.filter(job__in=[new.job.pk for new in news]).order_by()
    newest = dict(earlier.values_list("job_id").annotate(newest=Max("number")))
    attempts = Attempt.objects.bulk_create(_attempt(new, number=newest.get(new.job.pk, 0) + 1, at=at) for new in news)
    measurements_begin(attempts)
    leases_create(
        [
            (attempt, lease, new.epoch, generations[lease.server_id])
            for attempt, new in zip(attempts, news, strict=True)
            for lease in new.leases
        ],
        at=at,
    )
    return attempts


def _attempt(new: NewAttempt, *, number: int, at: datetime) -> Attempt:
    job = new.job
    resume = resume_from(job) if number > 1 else None
    return Attempt(
        id=new.attempt_id,
        job=job,
        number=number,
        kind=AttemptKind.SMOKE if job.smoke_due else AttemptKind.FULL,
        num_gpus=sum(len(lease.gpu_pks) for lease in new.leases),
        epoch=new.epoch,
        round_number=new.round_number,
        resume_attempt_id=resume.attempt_id if resume else "",
        resume_name=resume.name if resume else "",
        resume_step=resume.step if resume else None,
        created_at=at,
    )


@transaction.atomic
def attempt_stop(*, attempt_id: str, wanted: str, at: datetime, receipt: StopReceipt | None = None) -> list[str]:
    """Ask an attempt to end; only the first such request counts.

    Returns:
        Ids of the servers that must be told; empty when it was asked before or is over.
    """
    asked = (
        Attempt.objects.filter(pk=attempt_id, wanted__in=["run", "park"])
        .exclude(state=AttemptState.ENDED)
        .update(wanted=wanted, state=AttemptState.STOPPING, stop_requested_at=at, **(receipt or {}))
    )
    return attempt_retell(attempt_id) if asked else []
