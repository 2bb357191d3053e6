"""Closes an attempt once: its cause of end, its leases, the service it received, and what its job does next.

A lease is closed only when its attempt is known to be over: reported ended, missing from a report on the generation
that stopped it, or its server lost. So a GPU is never given away while a process may still use it. The next state of
the job is decided in ``retry.py``. Held right by ``tests/faults``.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction

from scheduler.core.model.lifecycle import ENDS_BY_RULE, OPEN, EndCause, JobState
from scheduler.core.model.plan import PreemptRule, WaitReason
from scheduler.core.operations.failures import MACHINE, FailureClass, class_of
from scheduler.live.attempts.leases import generations_raise, servers_of, service_of
from scheduler.live.attempts.retry import AttemptEnd, RetryDecision, decide_retry
from scheduler.models import Attempt, Job, Lease, LeaseGpu
from scheduler.models.job import AttemptKind, AttemptState
from scheduler.notify import request_round, touch_cluster
from scheduler.selectors.jobs.kept import lost_s
from scheduler.selectors.times import seconds_between
from scheduler.services.jobs.profiles import profile_refine
from scheduler.services.jobs.state import job_transition

CAUSE_OF_STOP = {
    "park": EndCause.PREEMPTED,
    "preempt": EndCause.PREEMPTED,
    "suspend": EndCause.SUSPENDED,
    "cancel": EndCause.CANCELLED,
}
# How many earlier ends ``decide_retry`` sees: enough to reach the longest back-off.
ENDINGS_READ = 16


@transaction.atomic
def attempt_close(*, attempt_id: str, ending: AttemptEnd, at: datetime, actor: str) -> list[str]:
    """Record the end of an attempt, once: leases, service, and the next state of its job.

    ``ending.run_s`` is filled in here, by the scheduler's clock.

    Returns:
        Ids of the servers that must be told; empty when the attempt was over already.
    """
    attempt = Attempt.objects.select_for_update().select_related("job").filter(pk=attempt_id, ended_at=None).first()
    if attempt is None:
        return []
    job = attempt.job
    cause = _cause(ending.cause, attempt)
    held_s, used_s = service_of(attempt, at=at)
    run_s = seconds_between(attempt.started_at, at) if attempt.started_at else 0.0
    end = _with_failure(replace(ending, cause=cause, run_s=run_s), attempt)
    decision = decide_retry(
        endings=[end, *_earlier_endings(attempt)],
        wanted=job.wanted,
        failures=job.failures,
        max_attempts=job.max_attempts,
    )
    server_ids = servers_of(attempt.id)
    _close_rows(attempt, end=end, at=at, lost_s=_lost_s(attempt, cause=cause, at=at))
    _move_job(
        attempt,
        end=end,
        decision=decision,
        at=at,
        actor=actor,
        service={
            "attained_gpu_s": job.attained_gpu_s + held_s * attempt.num_gpus,
            "executed_s": job.executed_s + used_s,
            "preemptions": job.preemptions + (cause is EndCause.PREEMPTED),
            "failures": decision.failures,
            "smoke_due": job.smoke_due and cause is not EndCause.SMOKE_PASSED,
        },
    )
    generations_raise(server_ids)
    profile_refine(attempt_id=attempt.id)
    request_round("end")
    touch_cluster()
    return server_ids


def _with_failure(end: AttemptEnd, attempt: Attempt) -> AttemptEnd:
    """Return the end with its failure class: from its devices first, then its cause, then its output."""
    end = replace(end, is_smoke=attempt.kind == AttemptKind.SMOKE)
    if end.is_ours:
        return replace(end, failure=None, line="")
    if end.cause is EndCause.EARLY_STOPPED:
        return replace(end, failure=None, line="", detail=_early_words(attempt.job))
    if end.cause in (EndCause.SUSPENDED, EndCause.CANCELLED) and attempt.job.idle_since is not None:
        return replace(end, failure=None, line="", detail=_idle_words(attempt))
    if end.cause not in (EndCause.EXIT_CODE, EndCause.SIGNAL):
        return replace(end, failure=class_of(end.cause), line="")
    broken = (
        LeaseGpu.objects.filter(lease__attempt=attempt, released_at=None, gpu__healthy=False)
        .values_list("gpu__index", "gpu__server__name", "gpu__health_reason")
        .order_by("gpu__server__number", "gpu__index")
        .first()
    )
    if broken is not None:
        line = f"device {broken[0]} of {broken[1]} failed under it: {broken[2]}"
        return replace(end, failure=FailureClass.NODE, line=line, is_seen=True)
    return end if end.failure is not None else replace(end, failure=class_of(end.cause))


def _early_words(job: Job) -> str:
    of_total = f" of {job.total_steps}" if job.total_steps else ""
    saved = "" if job.saved_gpu_s is None else f" {job.saved_gpu_s / 3600:.2f} GPU-hours were left unused."
    return f"Its loss had stopped falling after step {job.step}{of_total}.{saved}"


def _idle_words(attempt: Attempt) -> str:
    since, at = attempt.job.idle_since, attempt.stop_requested_at
    minutes = round(seconds_between(since, at) / 60) if since and at else 0
    gpus, them = ("1 GPU", "it") if attempt.num_gpus == 1 else (f"{attempt.num_gpus} GPUs", "them")
    return f"It held {gpus} for {minutes} min without using {them}, longer than {attempt.job.queue.name} allows."


def _cause(said: EndCause, attempt: Attempt) -> EndCause:
    """Return the cause to record: a requested end is named after the request, and only if there was one.

    But a job that was preempted without a request of ours was stopped with its server, by the server's operator.
    """
    if said not in CAUSE_OF_STOP.values():
        return said
    if said is EndCause.PREEMPTED and attempt.wanted == "run" and attempt.started_at and not attempt.preempt_rule:
        attempt.preempt_rule = PreemptRule.SERVER_GONE
        return said
    if attempt.preempt_rule == EndCause.LAUNCH_UNCONFIRMED or attempt.wanted == "run":
        return EndCause.SUPERVISOR_LOST if attempt.started_at else EndCause.LAUNCH_UNCONFIRMED
    if attempt.preempt_rule in ENDS_BY_RULE:
        return EndCause(attempt.preempt_rule)
    return CAUSE_OF_STOP[attempt.wanted]


def _earlier_endings(attempt: Attempt) -> list[AttemptEnd]:
    rows = Attempt.objects.filter(job_id=attempt.job_id, number__lt=attempt.number).order_by("-number")
    return [
        AttemptEnd(
            cause=EndCause(row.end_cause),
            exit_code=row.exit_code,
            exit_signal=row.exit_signal,
            run_s=seconds_between(row.started_at, row.ended_at) if row.started_at and row.ended_at else 0.0,
            failure=FailureClass(row.failure) if row.failure else None,
            line=row.failure_line,
            is_smoke=row.kind == AttemptKind.SMOKE,
        )
        for row in rows[:ENDINGS_READ]
        if row.end_cause
    ]


def _lost_s(attempt: Attempt, *, cause: EndCause, at: datetime) -> float | None:
    """Return the run time that is lost, seconds; None when the job does not run again."""
    if cause in (EndCause.COMPLETED, EndCause.CANCELLED) or attempt.started_at is None:
        return None
    return lost_s(attempt.job, attempt, at)


def _close_rows(attempt: Attempt, *, end: AttemptEnd, at: datetime, lost_s: float | None) -> None:
    attempt.state, attempt.ended_at, attempt.lost_s = AttemptState.ENDED, at, lost_s
    attempt.end_cause, attempt.end_detail = end.cause, end.detail[:300]
    attempt.exit_code, attempt.exit_signal = end.exit_code, end.exit_signal
    attempt.failure, attempt.failure_line = end.failure or "", end.line[:300]
    columns = ["state", "ended_at", "lost_s", "end_cause", "end_detail", "exit_code", "exit_signal"]
    attempt.save(update_fields=[*columns, "failure", "failure_line", "preempt_rule"])
    LeaseGpu.objects.filter(lease__attempt=attempt, released_at=None).update(released_at=at)
    Lease.objects.filter(attempt=attempt, closed_at=None).update(closed_at=at)


def _move_job(
    attempt: Attempt, *, end: AttemptEnd, decision: RetryDecision, at: datetime, actor: str, service: dict[str, Any]
) -> None:
    job = attempt.job
    if JobState(job.state) not in OPEN:  # an attempt is open exactly while its job holds leases
        raise AssertionError(f"job {job.number} is {job.state} with attempt {attempt.number} open")
    data = {
        "attempt": attempt.number,
        "detail": end.detail[:300],
        "run_s": round(end.run_s, 3),
        "lost_s": None if attempt.lost_s is None else round(attempt.lost_s, 3),
        "exit_code": end.exit_code,
        "exit_signal": end.exit_signal,
        "failure": end.failure,
        "line": end.line[:300],
        "failures": decision.failures,
    }
    if end.failure in MACHINE and decision.to is JobState.QUEUED:
        rows = Lease.objects.filter(attempt=attempt).order_by("server__number")
        data["stays_off"] = list(rows.values_list("server__name", flat=True).distinct())
    changes = dict(service)
    to = decision.to
    if to in (JobState.COMPLETED, JobState.FAILED, JobState.CANCELLED):
        changes |= {"end_cause": end.cause, "end_detail": decision.detail[:300]}
    elif to is JobState.QUEUED and decision.backoff_s > 0:
        changes |= {
            "retry_after": at + timedelta(seconds=decision.backoff_s),
            "wait_reason": WaitReason.BACKOFF,
            "wait_evidence": {
                "backoff_s": decision.backoff_s,
                "failures": decision.failures,
                "max_attempts": job.max_attempts,
                "cause": str(end.cause if end.failure in (None, FailureClass.UNCLASSIFIED) else end.failure),
            },
        }
    through = JobState.QUEUED if to is JobState.SUSPENDED and job.state != JobState.SUSPENDING else to
    job_transition(job=job, to=through, at=at, actor=actor, reason=end.cause, data=data, changes=changes)
    if through is not to:
        job_transition(job=job, to=to, at=at, actor="scheduler", reason="suspended", data={})
