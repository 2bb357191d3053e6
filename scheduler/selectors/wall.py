"""What the wall shows of the queue: jobs that wait, by when they start, and which of them were just preempted.

All else on the wall is read by the selectors of the overview. Nothing here names a person.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, TypedDict

from django.conf import settings
from django.db.models import F, Sum

from scheduler.core.model.lifecycle import WAITING, EndCause, JobState
from scheduler.core.model.plan import PreemptRule, WaitReason
from scheduler.models import Attempt, Event, Job
from scheduler.selectors.evidence import names_of, wait_evidence
from scheduler.selectors.jobs.estimates import estimates_of
from scheduler.selectors.jobs.listing import JobFilters, job_list
from scheduler.selectors.rows import EventRow, Json, Moment, one_of
from scheduler.selectors.visibility import Actor, access_of

LOOKED_AT = 50  # the first in line; those that start first are among them
JUST_ROUNDS = 2


class WallWaiting(TypedDict):
    """A job that waits."""

    number: int
    name: str
    queue: str
    color_slot: int
    num_gpus: int
    starts_at: Annotated[Moment | None, "In half of the simulated futures."]
    reason: Annotated[str, one_of(WaitReason, blank=True), "Why it waits."]
    evidence: Annotated[Json, "The numbers of the reason, with names that the reader may know."]
    preempted_rule: Annotated[str, one_of(PreemptRule, blank=True), "Set for two rounds after a preemption."]
    preempted_by_queue: Annotated[str, "Whose job got the place; empty where the reader may not know."]


class WallLine(TypedDict):
    """Jobs that wait."""

    jobs: int
    gpus: int
    first: Annotated[list[WallWaiting], "Those that start first; unknown times last."]


def wall_line(user: Actor, at: datetime, *, most: int, names: bool = True) -> WallLine:
    """Return the jobs that wait, those that start first in front, by a fixed number of queries.

    ``names``: whether the evidence may name the job that another one waits for.
    """
    access = access_of(user)
    waiting = job_list(user, JobFilters(states=tuple(sorted(WAITING))))
    total = waiting.order_by().aggregate(gpus=Sum("num_gpus"))
    jobs = list(waiting.order_by(F("wait_position").asc(nulls_last=True), "number")[:LOOKED_AT])
    pks = [job.pk for job in jobs]
    estimates, taken = estimates_of(jobs), _just_preempted(pks, at)
    known = replace(names_of(access), jobs=names)
    rows: list[WallWaiting] = []
    for job in jobs:
        estimate = estimates.get(job.pk)
        rule, by_queue = taken.get(job.pk, ("", None))
        rows.append(
            {
                "number": job.number,
                "name": job.name,
                "queue": job.queue.name,
                "color_slot": job.queue.color_slot,
                "num_gpus": job.num_gpus,
                "starts_at": estimate["p50_at"] if estimate else None,
                "reason": job.wait_reason,
                "evidence": wait_evidence(job, known) if job.wait_reason else {},
                "preempted_rule": rule,
                "preempted_by_queue": known.queues.get(by_queue, "") if by_queue else "",
            }
        )
    return {"jobs": waiting.count(), "gpus": total["gpus"] or 0, "first": _by_start(rows)[:most]}


def _by_start(rows: Sequence[WallWaiting]) -> list[WallWaiting]:
    """Return jobs in line by their start; one without an estimate stands before the first of those behind it."""
    keys, first = [], "~"
    for row in reversed(rows):
        keys.append(row["starts_at"] or first)
        first = min(first, keys[-1])
    return [row for _, row in sorted(zip(reversed(keys), rows, strict=True), key=lambda pair: pair[0])]


def wall_takers(user: Actor, rows: Sequence[EventRow]) -> dict[int, str]:
    """Return the queue whose job got the place, by event of a preemption, where the reader may know it."""
    ids = [row["id"] for row in rows if row["new_state"] == JobState.PREEMPTING]
    told = Event.objects.filter(pk__in=ids).values_list("pk", "data__by_job")
    by = {event: number for event, number in told if number}
    queues = dict(Job.objects.filter(number__in=set(by.values())).order_by().values_list("number", "queue_id"))
    known = names_of(access_of(user)).queues
    names = {number: known[queue] for number, queue in queues.items() if queue in known}
    return {event: names[number] for event, number in by.items() if number in names}


def _just_preempted(pks: list[str], at: datetime) -> dict[str, tuple[str, int | None]]:
    """Return the rule and the queue of the job that took the place, of jobs that were preempted just now."""
    since = at - timedelta(seconds=JUST_ROUNDS * settings.ROUND_S)
    ended = Attempt.objects.filter(job_id__in=pks, end_cause=EndCause.PREEMPTED, ended_at__gte=since).order_by("number")
    columns = ("job_id", "preempt_rule", "preempted_by__queue_id")
    return {job: (rule, queue) for job, rule, queue in ended.values_list(*columns)}
