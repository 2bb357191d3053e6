"""What the wall shows of the queue: jobs that wait, by when they start, and which of them were just preempted.

All else on the wall is read by the selectors of the overview. Nothing here names a person.
"""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, TypedDict

from django.conf import settings
from django.db.models import F, Sum

from scheduler.core.model.lifecycle import WAITING, EndCause
from scheduler.core.model.plan import PreemptRule
from scheduler.models import Attempt
from scheduler.selectors.evidence import names_of, wait_sentence
from scheduler.selectors.jobs.estimates import estimates_of
from scheduler.selectors.jobs.listing import JobFilters, job_list
from scheduler.selectors.rows import Moment, one_of
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
    sentence: str
    preempted_rule: Annotated[str, one_of(PreemptRule, blank=True), "Set for two rounds after a preemption."]
    preempted_by_queue: str


class WallLine(TypedDict):
    """Jobs that wait."""

    jobs: int
    gpus: int
    first: Annotated[list[WallWaiting], "Those that start first; unknown times last."]


def wall_line(user: Actor, at: datetime, *, most: int, names: bool = True) -> WallLine:
    """Return the jobs that wait, those that start first in front, by a fixed number of queries.

    ``names``: whether a sentence may name the job that another one waits for.
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
        rule, by_queue = taken.get(job.pk, ("", ""))
        rows.append(
            {
                "number": job.number,
                "name": job.name,
                "queue": job.queue.name,
                "color_slot": job.queue.color_slot,
                "num_gpus": job.num_gpus,
                "starts_at": estimate["p50_at"] if estimate else None,
                "sentence": wait_sentence(job, known),
                "preempted_rule": rule,
                "preempted_by_queue": by_queue,
            }
        )
    rows.sort(key=lambda row: row["starts_at"] or "~")
    return {"jobs": waiting.count(), "gpus": total["gpus"] or 0, "first": rows[:most]}


def _just_preempted(pks: list[str], at: datetime) -> dict[str, tuple[str, str]]:
    """Return the rule and the queue of the job that took the place, of jobs that were preempted just now."""
    since = at - timedelta(seconds=JUST_ROUNDS * settings.ROUND_S)
    ended = Attempt.objects.filter(job_id__in=pks, end_cause=EndCause.PREEMPTED, ended_at__gte=since).order_by("number")
    columns = ("job_id", "preempt_rule", "preempted_by__queue__name")
    return {job: (rule, queue or "") for job, rule, queue in ended.values_list(*columns)}
