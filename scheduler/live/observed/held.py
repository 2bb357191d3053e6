"""Reads what holds jobs back before a round orders them: limits of their arrays, and jobs that have to end first.

The rule that uses it is ``scheduler.core.round.held_back``.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field

from scheduler.core.model.holds import After, ArrayLimit
from scheduler.core.model.lifecycle import TERMINAL, JobState
from scheduler.core.model.plan import Evidence
from scheduler.core.spec.depends_on import dependencies_of
from scheduler.models import Job
from scheduler.selectors.jobs.many.dependencies import OF_THE_MOMENT, WAITS_FOR_OTHERS, others_read, still_open


@dataclass(frozen=True, slots=True, kw_only=True)
class Holds:
    """What a snapshot says of jobs that are held back, and by row what is told of those that wait for others."""

    arrays: tuple[ArrayLimit, ...] = ()
    after: tuple[After, ...] = ()
    told: Mapping[int, Evidence] = field(default_factory=dict)


def holds_read(rows: Mapping[int, int]) -> Holds:
    """Return what holds back the jobs of a table; ``rows`` are their rows by number."""
    after, told = _after(rows)
    return Holds(arrays=_arrays(rows), after=after, told=told)


def _arrays(rows: Mapping[int, int]) -> tuple[ArrayLimit, ...]:
    """Return the arrays with a limit that have jobs in the table.

    At work is a job from its first start until its end, unless a user suspended it: what is preempted, or pauses after
    a failure, keeps its place.
    """
    jobs: dict[tuple[int, int], list[int]] = defaultdict(list)
    outside: dict[int, int] = defaultdict(int)
    members = Job.objects.filter(array_most__gt=0).exclude(state__in=sorted(TERMINAL)).order_by("number")
    for number, array, most, state, first_started_at in members.values_list(
        "number", "array_number", "array_most", "state", "first_started_at"
    ):
        assert array is not None  # a job with a limit is of an array
        if number in rows:
            jobs[array, most].append(number)
        elif state not in (JobState.QUEUED, JobState.SUSPENDED) or (state == JobState.QUEUED and first_started_at):
            outside[array] += 1
    return tuple(
        ArrayLimit(number=array, most=most, outside=outside[array], jobs=tuple(numbers))
        for (array, most), numbers in jobs.items()
    )


def _after(rows: Mapping[int, int]) -> tuple[tuple[After, ...], dict[int, Evidence]]:
    waiting: dict[str, list[int]] = defaultdict(list)
    jobs = Job.objects.filter(state__in=WAITS_FOR_OTHERS).exclude(waits_for="").order_by("number")
    for number, text in jobs.values_list("number", "waits_for"):
        if number in rows:
            waiting[text].append(number)
    if not waiting:
        return (), {}
    asked = {text: dependencies_of(text) for text in waiting}
    others = others_read({one for each in asked.values() for one in each}, Job.objects.all())
    after: list[After] = []
    told: dict[int, Evidence] = {}
    for text, numbers in waiting.items():
        on, evidence = still_open(asked[text], others)
        after.append(After(jobs=tuple(numbers), on=on))
        lasting = {name: value for name, value in evidence.items() if name not in OF_THE_MOMENT}
        told |= {rows[number]: lasting for number in numbers}
    return tuple(after), told
