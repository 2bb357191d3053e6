"""What happened to one job: events, attempts, the timeline of runs and waits, measured values."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Literal, TypedDict

from django.db.models import Q, QuerySet

from scheduler.core.model.lifecycle import ENDS_BY_RULE, JobState
from scheduler.models import Attempt, Event, Job
from scheduler.models.event import SampleScope
from scheduler.selectors.events import events_joined
from scheduler.selectors.evidence import ANOTHER_JOB, ANOTHER_QUEUE
from scheduler.selectors.jobs.rows import AttemptRow, GapRow, ReceiptRow, RunRow, SeatRow, TimelineRow
from scheduler.selectors.samples import Series, series_thinned
from scheduler.selectors.times import iso, seconds_between
from scheduler.selectors.visibility import Access, Actor, access_of

JOB_VALUES = ("step", "loss", "steps_per_s", "cpu_frac", "memory_bytes", "gpu_frac", "cached_frac")
GAPS_READ = 2_000  # events that begin or end a wait


def job_events(job: Job) -> QuerySet[Event]:
    """Return the events of a job, oldest first, with what ``event_row`` reads; the caller slices it."""
    return events_joined(Event.objects.filter(job=job)).order_by("number")


def attempt_row(attempt: Attempt) -> AttemptRow:
    """Return one attempt with where it ran and how it ended.

    Reads its leases with their servers and GPUs; for more than one prefetch ``leases__server``, ``leases__gpus__gpu``.
    """
    return {
        "id": attempt.pk,
        "number": attempt.number,
        "state": attempt.state,
        "run_kind": attempt.kind,
        "wanted": attempt.wanted,
        "num_gpus": attempt.num_gpus,
        "round": attempt.round_number,
        "created_at": iso(attempt.created_at),
        "started_at": iso(attempt.started_at),
        "stop_requested_at": iso(attempt.stop_requested_at),
        "ended_at": iso(attempt.ended_at),
        "end_cause": attempt.end_cause,
        "end_detail": attempt.end_detail,
        "exit_code": attempt.exit_code,
        "exit_signal": attempt.exit_signal,
        "failure": attempt.failure,
        "failure_line": attempt.failure_line,
        "resume_step": attempt.resume_step,
        "first_step": attempt.first_step,
        "last_step": attempt.last_step,
        "peak_memory_bytes": attempt.peak_memory_bytes,
        "log_bytes": attempt.log_bytes,
        "lost_s": attempt.lost_s,
        "servers": [_seat(lease) for lease in _last_leases(attempt)],
    }


def _last_leases(attempt: Attempt) -> list[Any]:
    """Return what an attempt holds now, or held when it ended: without leases from before its GPUs changed."""
    return [
        lease
        for lease in sorted(attempt.leases.all(), key=lambda lease: lease.pk)
        if lease.closed_at == attempt.ended_at
    ]


def job_timeline(job: Job, at: datetime, user: Actor | None = None) -> list[TimelineRow]:
    """Return attempts and the gaps between them, oldest first; ``end`` is None for what goes on at ``at``.

    Args:
        user: The reader, for the names in receipts; None for any user who sees the job.
    """
    access = access_of(user) if user is not None else Access(is_admin=False, roles={})
    attempts = Attempt.objects.filter(job=job).select_related("preempted_by__queue").defer("preempted_by__spec")
    rows = attempts.prefetch_related("leases__server", "leases__gpus__gpu").order_by("number")
    entries: list[TimelineRow] = [_attempt_entry(job, attempt, access, at) for attempt in rows]
    entries += _gaps(job, at)
    return sorted(entries, key=lambda entry: (entry["start"], entry["kind"] == "attempt"))


def job_series(job: Job, since: datetime | None = None) -> Series:
    """Return the measured values of a job after ``since`` as lists of one length: ``at`` and JOB_VALUES."""
    return series_thinned(scope=SampleScope.JOB, scope_id=job.pk, names=JOB_VALUES, since=since)


def _seat(lease: Any) -> SeatRow:  # a Lease; its reverse relations have no types
    return {
        "server_id": lease.server_id,
        "server": lease.server.name,
        "gpus": sorted(held.gpu.index for held in lease.gpus.all()),
        "cpus": lease.cpus,
        "memory_bytes": lease.memory_bytes,
    }


def _attempt_entry(job: Job, attempt: Attempt, access: Access, at: datetime) -> RunRow:
    return {
        "kind": "attempt",
        **_span(attempt.created_at, attempt.ended_at, at),
        **attempt_row(attempt),
        "ran_s": round(_ran_s(attempt, at), 3),
        "receipt": _receipt(job, attempt, access),
    }


def _ran_s(attempt: Attempt, at: datetime) -> float:
    """Return how long its process has run on leases with GPUs: what ``Job.executed_s`` is the sum of."""
    if attempt.started_at is None:
        return 0.0
    held = {(lease.opened_at, lease.closed_at) for lease in attempt.leases.all() if lease.num_gpus}
    return sum(seconds_between(max(opened, attempt.started_at), closed or at) for opened, closed in held)


def _receipt(job: Job, attempt: Attempt, access: Access) -> ReceiptRow | None:
    """Return by which job and rule the attempt was preempted, and what was lost; None when it was not."""
    if not attempt.preempt_rule or attempt.preempt_rule in ENDS_BY_RULE:
        return None
    by = attempt.preempted_by
    is_seen = by is not None and (by.queue_id == job.queue_id or access.sees(by.queue_id))
    return {
        "rule": attempt.preempt_rule,
        "at": iso(attempt.stop_requested_at),
        "lost_s": attempt.lost_s,
        "by_job": None
        if by is None
        else {
            "id": by.pk if is_seen else None,
            "number": by.number if is_seen else None,
            "name": by.name if is_seen else ANOTHER_JOB,
            "queue": by.queue.name if is_seen else ANOTHER_QUEUE,
        },
    }


def _gaps(job: Job, at: datetime) -> list[GapRow]:
    """Return the times without an attempt out of the events: one entry for each reason to wait."""
    events = Event.objects.filter(Q(kind="job_state") | Q(kind="job_wait"), job=job).order_by("-number")
    rows = events.values_list("kind", "at", "new_state", "reason")[:GAPS_READ]
    return list(_fold(reversed(list(rows)), at))


def _fold(rows: Iterable[tuple[str, datetime, str, str]], at: datetime) -> Iterable[GapRow]:
    begun: tuple[Literal["wait", "suspended"], datetime, str] | None = None
    for kind, moment, state, reason in rows:
        if begun is not None and (kind == "job_state" or begun[0] == "wait"):
            if moment > begun[1]:
                yield {"kind": begun[0], "reason": begun[2], **_span(begun[1], moment, at)}
            begun = None
        if kind == "job_wait":
            begun = ("wait", moment, reason)
        elif state == JobState.QUEUED:
            begun = ("wait", moment, "new")
        elif state == JobState.SUSPENDED:
            begun = ("suspended", moment, "held")
    if begun is not None:
        yield {"kind": begun[0], "reason": begun[2], **_span(begun[1], None, at)}


class _Span(TypedDict):
    start: str
    end: str | None
    duration_s: float


def _span(start: datetime, end: datetime | None, at: datetime) -> _Span:
    return {"start": iso(start), "end": iso(end), "duration_s": round(seconds_between(start, end or at), 3)}
