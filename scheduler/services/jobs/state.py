"""The one writer of a job's state: each change is checked against the table, guarded against races, and an event.

It also writes the columns that must agree with the state: the wait reason (only while it waits), the end time (only
when ended), the closed waiting time, and event numbers without gaps. Callers decide when a job moves, and why. Held
right by constraints and ``tests/integration/services/test_job_state.py``.
"""

import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import lru_cache
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import F, QuerySet, TextField
from django.db.models.functions import Cast

from scheduler.core.model.errors import InvalidTransition, JobChanged
from scheduler.core.model.lifecycle import TERMINAL, WAITING, JobState, check_transition
from scheduler.core.model.plan import Evidence, WaitReason
from scheduler.models import Event, Job
from scheduler.notify import touch_job, touch_jobs, touch_queue
from scheduler.services.many_rows import rows_update, rows_update_if

log = logging.getLogger(__name__)

# ``data`` of an event (JSON), or columns of a job: values of any type at the edge to the database.
EventData = Mapping[str, Any]
BATCH = 500  # rows a statement; SQLite takes at most 32,766 parameters in one
TOUCHED_MOST = 200  # jobs whose live pages one round of waits wakes, new reasons first
# A job's new wait reason is an event at most so often: one freed GPU may change the reason of thousands of jobs.
TOLD_EVERY = timedelta(seconds=60)
WAITS_NOT = {"wait_reason": "", "wait_since": None}
# A job that was stopped for idle GPUs keeps ``idle_since``.
STAYS_IDLE = frozenset({JobState.SUSPENDING, JobState.SUSPENDED, JobState.CANCELLED})


class Wait(NamedTuple):
    """Why one job waits after a round.

    Attributes:
        job_id: ULID.
        reason: The binding constraint.
        evidence: Its numbers.
        position: 1 for the first waiting job in the order of the policy; None when it is not in the order.
    """

    job_id: str
    reason: WaitReason
    evidence: Evidence
    position: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """One job that enters another state; ``data`` are the numbers of its event, ``changes`` further columns of it."""

    job: Job  # as the caller read it; updated when the move succeeds
    to: JobState
    data: EventData = field(default_factory=dict)
    changes: EventData = field(default_factory=dict)


def job_transition(
    *,
    job: Job,
    to: JobState,
    at: datetime,
    actor: str,
    reason: str,
    data: EventData | None = None,
    changes: EventData | None = None,
) -> None:
    """Move ``job`` to another state and record it as its next event, in one transaction.

    Args:
        job: As the caller read it; updated when the move succeeds.
        to: The state it enters.
        at: Now, aware, UTC.
        actor: User name, "scheduler", or "agent <server name>".
        reason: Short code: a cause, a rule, or what a user did.
        data: The numbers of the event.
        changes: Further columns of the job to write with it, as plain values (no ``F``). They win over the bookkeeping:
            ``wait_reason`` of a job that goes back to its queue is ``new`` unless given here.

    Raises:
        InvalidTransition: The table does not allow the move.
        JobChanged: The job has moved, or has a newer event, since the caller read it. Nothing is written.
    """
    before = JobState(job.state)
    try:
        check_transition(before, to)
    except InvalidTransition as error:
        raise InvalidTransition(f"job {job.number}: {error}") from None
    columns = {**_bookkeeping(job=job, before=before, to=to, at=at), **(changes or {}), "state": to}
    with transaction.atomic():
        _advance(job, columns)
        _record(job, "job_state", at=at, actor=actor, reason=reason, data=data, old_state=before, new_state=to)
        touch_queue(job.queue_id)


def jobs_transition(*, moves: Sequence[Move], at: datetime, actor: str, reason: str) -> list[Job]:
    """Move many jobs as ``job_transition`` moves one, by a few statements; return those that moved.

    A job that has changed since the caller read it, or that the table does not allow to move, is left out.
    """
    moved: list[Job] = []
    for start in range(0, len(moves), BATCH):
        with transaction.atomic():
            moved += _move_batch(moves[start : start + BATCH], at=at, actor=actor, reason=reason)
    touch_jobs([job.id for job in moved], sorted({job.queue_id for job in moved}))
    return moved


def _move_batch(moves: Sequence[Move], *, at: datetime, actor: str, reason: str) -> list[Job]:
    pks = sorted(move.job.pk for move in moves)
    # Locked until the commit; the guard of the update says the same where a database knows no locks of rows.
    rows = Job.objects.select_for_update().filter(pk__in=pks).order_by("pk")
    present = {pk: version for pk, *version in rows.values_list("pk", "state", "event_count")}
    changes: list[tuple[Job, dict[str, Any], dict[str, Any]]] = []
    events: list[Event] = []
    for move in moves:
        job, before = move.job, JobState(move.job.state)
        try:
            check_transition(before, move.to)
        except InvalidTransition as error:
            log.debug("move_skipped", extra={"job": job.pk, "error": str(error)})
            continue
        if present.get(job.pk) != [job.state, job.event_count]:
            log.debug("move_skipped", extra={"job": job.pk, "error": "it has changed"})
            continue
        columns = {**_bookkeeping(job=job, before=before, to=move.to, at=at), **move.changes, "state": move.to}
        columns["event_count"] = job.event_count + 1
        changes.append((job, {"state": job.state, "event_count": job.event_count}, columns))
        events.append(
            Event(
                at=at,
                kind="job_state",
                actor=actor,
                job=job,
                number=columns["event_count"],
                queue_id=job.queue_id,
                old_state=before,
                new_state=move.to,
                reason=reason,
                data=dict(move.data),
            )
        )
    if rows_update_if(Job, ((job.pk, was, columns) for job, was, columns in changes)) != len(changes):
        raise JobChanged(f"one of {len(changes)} jobs changed while they were moved")
    Event.objects.bulk_create(events)
    for job, _, columns in changes:
        for name, value in columns.items():
            setattr(job, name, value)
    return [job for job, _, _ in changes]


def job_event(
    *,
    job: Job,
    kind: str,
    at: datetime,
    actor: str,
    reason: str,
    data: EventData | None = None,
    changes: EventData | None = None,
) -> Event:
    """Record an event of a job that does not change its state, as its next event.

    Arguments are those of ``job_transition``. Raises JobChanged.
    """
    with transaction.atomic():
        _advance(job, dict(changes or {}))
        return _record(job, kind, at=at, actor=actor, reason=reason, data=data)


def _record(
    job: Job, kind: str, *, at: datetime, actor: str, reason: str, data: EventData | None, **states: JobState
) -> Event:
    event = Event.objects.create(
        at=at,
        kind=kind,
        actor=actor,
        job=job,
        number=job.event_count,
        queue_id=job.queue_id,
        reason=reason,
        data=dict(data or {}),
        **states,
    )
    touch_job(job.id)
    return event


def job_waits_record(*, waits: Sequence[Wait], round_number: int, at: datetime) -> list[str]:
    """Write why jobs wait after a round; a new reason is an event of kind ``job_wait``.

    The first reason of a wait is an event at once, later ones at most once in TOLD_EVERY; a reason that lasts becomes
    one in the end. Jobs that no longer wait are not changed. At most TOUCHED_MOST jobs reach live pages at once.

    Returns:
        Ids of the jobs whose reason, numbers or position changed.
    """
    changed: list[str] = []
    news: list[str] = []
    due = _changed(waits, at)
    for start in range(0, len(due), BATCH):
        with transaction.atomic():
            changed_here, news_here = _record_batch(
                {wait.job_id: wait for wait in due[start : start + BATCH]}, round_number, at
            )
        changed += changed_here
        news += news_here
    touch_jobs(list(dict.fromkeys([*news, *changed]))[:TOUCHED_MOST], [])
    return changed


def _bookkeeping(*, job: Job, before: JobState, to: JobState, at: datetime) -> dict[str, Any]:
    """Return the columns that follow from the move alone."""
    columns: dict[str, Any] = {"state_changed_at": at, "wait_evidence": {}, "wait_position": None}
    columns |= {"wait_reason": WaitReason.NEW, "wait_since": at} if to in WAITING else WAITS_NOT
    # The first wait reason after this is an event at once. Not for parked jobs: they wait for a turn every minute, for
    # the same reason each time.
    if to is JobState.QUEUED:
        columns |= {"told_reason": WaitReason.NEW, "told_at": at}
    if before in WAITING:
        # The wall clock may have stepped back: a waiting time is never negative.
        columns["queueing_s"] = job.queueing_s + max(0.0, (at - job.state_changed_at).total_seconds())
    if before is JobState.QUEUED:
        columns["retry_after"] = None
    if to in TERMINAL:
        columns["ended_at"] = at
    elif before in TERMINAL:
        columns |= {"ended_at": None, "end_cause": "", "end_detail": ""}
    if to not in STAYS_IDLE:
        columns["idle_since"] = None
    return columns


def _advance(job: Job, columns: dict[str, Any]) -> None:
    """Write ``columns`` and the next event number, if the job is as the caller read it.

    ``event_count`` is the job's version: the state alone would not show that a job left it and came back.
    """
    columns["event_count"] = job.event_count + 1
    found = Job.objects.filter(pk=job.pk, state=job.state, event_count=job.event_count).update(**columns)
    if found != 1:
        raise JobChanged(f"job {job.number}: no longer {job.state} with {job.event_count} events")
    for name, value in columns.items():
        setattr(job, name, value)


_WAIT = ("told_reason", "told_at", "wait_reason", "wait_evidence", "wait_position")


def _is_news(wait: Wait, told: str, told_at: datetime | None, *, at: datetime) -> bool:
    """Return whether a reason is told as an event now."""
    return told != wait.reason and (told == WaitReason.NEW or told_at is None or at - told_at >= TOLD_EVERY)


def _changed(waits: Sequence[Wait], at: datetime) -> list[Wait]:
    """Return the waits that are not recorded yet; in most rounds those are few."""
    if not waits:
        return []
    found = {wait.job_id: wait for wait in waits}
    jobs = Job.objects.filter(state__in=sorted(WAITING))
    if len(waits) <= BATCH:
        jobs = jobs.filter(pk__in=list(found))
    as_text = Cast("wait_evidence", TextField())  # equal for many jobs, so most are read but once
    untold: set[str] = set()
    for pk, told, reason, position, evidence in jobs.order_by().values_list(
        "pk", "told_reason", "wait_reason", "wait_position", as_text
    ):
        wait = found.get(pk)
        if wait is None or reason != wait.reason or position != wait.position or _evidence(evidence) != wait.evidence:
            continue
        if told == reason:
            del found[pk]
        else:
            untold.add(pk)
    # Moments cost more to read than all else, and only the few whose reason is not told yet need theirs.
    for pk, told, told_at in _told_of(jobs) if untold else ():
        if pk in untold and not _is_news(found[pk], told, told_at, at=at):
            del found[pk]
    return list(found.values())


def _told_of(jobs: QuerySet[Job]) -> Iterable[tuple[str, str, datetime | None]]:
    """Return of each job that waits for another reason than was told last: that reason, and when it was told."""
    return jobs.exclude(told_reason=F("wait_reason")).order_by().values_list("pk", "told_reason", "told_at")


@lru_cache(maxsize=4_096)
def _evidence(text: str) -> Evidence:
    found: Evidence = json.loads(text)
    return found


def _record_batch(waits: Mapping[str, Wait], round_number: int, at: datetime) -> tuple[list[str], list[str]]:
    """Write one batch of reasons; return the ids of the jobs that changed, and of those with an event."""
    changed: list[tuple[str, dict[str, Any]]] = []
    events: list[Event] = []
    queued = Job.objects.select_for_update().filter(pk__in=list(waits), state__in=sorted(WAITING)).order_by("number")
    for pk, queue_id, number, since, told, told_at, *before in queued.values_list(
        "pk", "queue_id", "event_count", "wait_since", *_WAIT
    ):
        wait = waits[pk]
        if _is_news(wait, told, told_at, at=at):
            number, told, told_at = number + 1, str(wait.reason), at
            events.append(_wait_event(wait, queue_id=queue_id, number=number, at=at))
        columns = {
            "event_count": number,
            "wait_since": since if before[0] == wait.reason else at,
            "told_reason": told,
            "told_at": told_at,
            "wait_reason": wait.reason,
            "wait_evidence": dict(wait.evidence),
            "wait_position": wait.position,
            "wait_round": round_number,
        }
        changed.append((pk, columns))
    rows_update(Job, changed)
    Event.objects.bulk_create(events)
    return [pk for pk, _ in changed], [event.job_id for event in events if event.job_id is not None]


def _wait_event(wait: Wait, *, queue_id: int, number: int, at: datetime) -> Event:
    return Event(
        at=at,
        kind="job_wait",
        actor="scheduler",
        job_id=wait.job_id,
        number=number,
        queue_id=queue_id,
        reason=wait.reason,
        data=dict(wait.evidence),
    )
