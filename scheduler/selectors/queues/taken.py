"""What took GPUs from the jobs of a queue, by queue, person and job, and which jobs lost: preemptions and lost work."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, TypedDict

from scheduler.core.model.plan import PreemptRule
from scheduler.models import Attempt, Queue
from scheduler.models.queue import Role
from scheduler.selectors.evidence import ANOTHER_JOB, ANOTHER_QUEUE
from scheduler.selectors.queues.tree import names_below
from scheduler.selectors.rows import Moment
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Actor, access_of

MOST = 10  # of each kind
ANOTHER_PERSON = "another person"
UNKNOWN = (ANOTHER_QUEUE, ANOTHER_PERSON, ANOTHER_JOB)
NO_JOB = "no job"  # where a server left the pool, or the policy gave GPUs elsewhere


class TakerRow(TypedDict):
    """One queue, person or job that took GPUs, or one job that lost them."""

    name: Annotated[str, '"another queue", "a job of speech" or "another job" where you may not know more.']
    preemptions: int
    recalls: Annotated[int, "Of these, by a queue that took its quota back."]
    lost_gpu_hours: Annotated[float, "Work since the newest checkpoint, times the GPUs of the job."]


class TakenReport(TypedDict):
    """What was taken from a queue and those below it."""

    queue: str
    since: Moment
    until: Moment
    total: TakerRow
    queues: list[TakerRow]
    people: list[TakerRow]
    jobs: list[TakerRow]
    losers: Annotated[list[TakerRow], "The jobs of the queue that were preempted."]
    hidden: Annotated[str, "Why some names are left out; empty where none is."]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Taken:
    """One preemption as the reader may see it."""

    queue: str
    person: str
    job: str
    loser: str
    is_recall: bool
    lost_gpu_s: float


def taken(user: Actor, queue: Queue, *, since: datetime, until: datetime) -> TakenReport:
    """Return the preemptions of a queue's jobs in the range, by what took the place and by what lost, by one query.

    Queues are named as in the ledger of loans: to leads of the queue and admins all, to other users those that they see
    anyway. People and jobs are named where the user sees their queue.
    """
    access = access_of(user)
    tells = access.at_least(queue.pk, Role.LEAD)
    is_hidden = False
    ended = Attempt.objects.filter(
        job__queue_id__in=list(names_below(queue)), ended_at__gte=since, ended_at__lt=until
    ).exclude(preempt_rule="")
    columns = (
        "preempt_rule",
        "lost_s",
        "num_gpus",
        "job__name",
        "job__number",
        "preempted_by__queue_id",
        "preempted_by__queue__name",
        "preempted_by__owner__username",
        "preempted_by__name",
        "preempted_by__number",
    )
    found = []
    for rule, lost_s, num_gpus, lost_by, lost_number, queue_pk, name, owner, job, number in ended.values_list(*columns):
        if queue_pk is None:
            names = (NO_JOB, NO_JOB, NO_JOB)
        elif access.sees(queue_pk):
            names = (name, owner, f"{job} J-{number}")
        else:
            names = (name, f"a user of {name}", f"a job of {name}") if tells else UNKNOWN
            is_hidden = True
        found.append(
            _Taken(
                queue=names[0],
                person=names[1],
                job=names[2],
                loser=f"{lost_by} J-{lost_number}",
                is_recall=rule == PreemptRule.QUOTA_RECLAIM,
                lost_gpu_s=(lost_s or 0.0) * num_gpus,
            )
        )
    return {
        "queue": queue.name,
        "since": iso(since),
        "until": iso(until),
        "total": _row("all", found),
        "queues": _by((one.queue, one) for one in found),
        "people": _by((one.person, one) for one in found),
        "jobs": _by((one.job, one) for one in found),
        "losers": _by((one.loser, one) for one in found),
        "hidden": _hidden(queue, tells=tells) if is_hidden else "",
    }


def _hidden(queue: Queue, *, tells: bool) -> str:
    if tells:
        return "Users and jobs are named only where you have a role in their queue."
    return f"Only leads of {queue.name} and admins read the names of queues in which they have no role."


def _by(named: Iterable[tuple[str, _Taken]]) -> list[TakerRow]:
    """Return the rows by name, those that cost most first."""
    groups: dict[str, list[_Taken]] = {}
    for name, one in named:
        groups.setdefault(name, []).append(one)
    rows = [_row(name, group) for name, group in groups.items()]
    return sorted(rows, key=lambda row: (-row["lost_gpu_hours"], -row["preemptions"], row["name"]))[:MOST]


def _row(name: str, group: list[_Taken]) -> TakerRow:
    return {
        "name": name,
        "preemptions": len(group),
        "recalls": sum(one.is_recall for one in group),
        "lost_gpu_hours": round(sum(one.lost_gpu_s for one in group) / 3600, 6),
    }
