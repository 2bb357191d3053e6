"""Opens an attempt that a round granted, and asks attempts to stop.

Each function is one step of one transaction, guarded against concurrent changes. Asking to stop closes no lease: that
happens in ``close.py`` once the attempt is known to be over.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypedDict

from django.db import transaction

from scheduler.core.model.lifecycle import JobState
from scheduler.live.attempts.checkpoints import resume_from
from scheduler.live.attempts.leases import NewLease, attempt_retell, leases_open
from scheduler.models import Attempt, Job
from scheduler.models.job import AttemptKind, AttemptState
from scheduler.services.jobs.profiles import measurement_begin
from scheduler.services.jobs.state import job_transition


@dataclass(frozen=True, slots=True, kw_only=True)
class NewAttempt:
    """One attempt that a round opens."""

    attempt_id: str
    leases: tuple[NewLease, ...]
    epoch: int
    round_number: int
    reason_data: Mapping[str, Any] = field(default_factory=dict)  # JSON of the event


class StopReceipt(TypedDict, total=False):
    """Columns of an attempt that say why it was asked to stop, and for which job."""

    preempt_rule: str
    preempted_by: Job | None


@transaction.atomic
def attempt_open(*, job: Job, new: NewAttempt, generations: Mapping[str, int], at: datetime) -> Attempt:
    """Give a queued job its leases and a new attempt that starts from its latest checkpoint.

    Raises:
        JobChanged: The job is no longer as the caller read it. Nothing is written.
    """
    job_transition(
        job=job, to=JobState.LAUNCHING, at=at, actor="scheduler", reason="granted", data=dict(new.reason_data)
    )
    newest = Attempt.objects.filter(job=job).order_by("-number").values_list("number", flat=True).first()
    resume = resume_from(job) if newest is not None else None
    attempt = Attempt.objects.create(
        id=new.attempt_id,
        job=job,
        number=(newest or 0) + 1,
        kind=AttemptKind.SMOKE if job.smoke_due else AttemptKind.FULL,
        num_gpus=sum(len(lease.gpu_pks) for lease in new.leases),
        epoch=new.epoch,
        round_number=new.round_number,
        resume_attempt_id=resume.attempt_id if resume else "",
        resume_name=resume.name if resume else "",
        resume_step=resume.step if resume else None,
        created_at=at,
    )
    measurement_begin(attempt)
    leases_open(attempt, new.leases, epoch=new.epoch, generations=generations, at=at)
    return attempt


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
