"""The jobs that others wait for, on their own or as arrays, and how they stand."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import F, QuerySet, Window
from django.db.models.functions import RowNumber

from scheduler.core.model.lifecycle import TERMINAL, JobState
from scheduler.core.model.plan import Evidence, WaitReason
from scheduler.core.operations.place_in_line import cannot_start_itself
from scheduler.core.spec.depends_on import Dependency, Verdict, dependencies_of
from scheduler.models import Job
from scheduler.selectors.evidence import Names, jobs_ahead, wait_evidence
from scheduler.selectors.rows import Json

WAITS_FOR_OTHERS = (JobState.QUEUED, JobState.SUSPENDED)
# So far up the dependencies of a job, and at so many jobs in all, a page looks for one that cannot start.
MOST_LEVELS, MOST_LOOKED_AT = 10, 100
# What is told of the others and changes while a job waits: read when it is shown, not kept with the reason.
OF_THE_MOMENT = frozenset({"job_state", "ended_jobs"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Other:
    """A job that others wait for, on its own or as one of an array."""

    number: int
    name: str
    state: JobState
    queue_id: int


Others = Mapping[Dependency, Sequence[Other]]


def array_newest(jobs: QuerySet[Job]) -> QuerySet[Job]:
    """Return the newest job of each index of the arrays: one that is tried again stands in for the failed one."""
    place = Window(RowNumber(), partition_by=["array_number", "array_index"], order_by=F("number").desc())
    return jobs.filter(array_number__isnull=False).annotate(place=place).filter(place=1)


def others_read(dependencies: Iterable[Dependency], jobs: QuerySet[Job]) -> Others:
    """Return those of ``jobs`` that each dependency is about, in the order of their numbers."""
    asked = set(dependencies)
    columns = ("array_number", "number", "name", "state", "queue_id")
    alone = {one.number for one in asked if not one.is_array}
    arrays = {one.number for one in asked if one.is_array}
    found: dict[tuple[bool, int], list[Other]] = defaultdict(list)
    for is_array, rows in (
        (False, jobs.filter(number__in=alone) if alone else None),
        (True, array_newest(jobs.filter(array_number__in=arrays)) if arrays else None),
    ):
        for array, number, name, state, queue_id in (
            () if rows is None else rows.order_by("number").values_list(*columns)
        ):
            other = Other(number=number, name=name, state=JobState(state), queue_id=queue_id)
            found[is_array, array if is_array else number].append(other)
    return {one: found[one.is_array, one.number] for one in asked}


def still_open(dependencies: Sequence[Dependency], others: Others) -> tuple[tuple[int, ...], Evidence]:
    """Return the numbers of the jobs that have not ended, at least one, and what is told of the first of them.

    What has ended since the last ``dependencies_apply`` still counts: nothing has looked at how it ended.
    """
    running = {one: [other for other in others[one] if other.state not in TERMINAL] for one in dependencies}
    first = next((one for one in dependencies if running[one]), dependencies[0])
    told: Evidence = {"job": first.subject, "until": first.until.value}
    if first.is_array:
        told |= {"array_jobs": len(others[first]), "ended_jobs": len(others[first]) - len(running[first])}
    elif running[first]:
        [other] = running[first]
        told |= {"job": f"{first.subject} {other.name}", "job_state": other.state.value, "job_queue_id": other.queue_id}
    numbers = tuple(dict.fromkeys(other.number for one in dependencies for other in running[one]))
    return numbers or (first.number,), told


def open_now(dependencies: Sequence[Dependency]) -> tuple[tuple[int, ...], Evidence] | None:
    """Return what ``still_open`` says of a job that is submitted now; None where nothing keeps it waiting."""
    others = others_read(dependencies, Job.objects.all()) if dependencies else {}
    waiting = [one for one in dependencies if one.verdict([other.state for other in others[one]]) is Verdict.OPEN]
    return still_open(waiting, others) if waiting else None


def wait_evidence_now(job: Job, names: Names) -> Json:
    """Return why one job waits as ``wait_evidence`` does, with how what it waits for, or stands behind, is now."""
    if job.wait_reason == WaitReason.BEHIND_POLICY_ORDER:
        return wait_evidence(job, names, ahead=jobs_ahead(job).count())
    dependencies = dependencies_of(job.waits_for) if job.wait_reason == WaitReason.DEPENDENCY else ()
    if not dependencies:
        return wait_evidence(job, names)
    numbers, told = still_open(dependencies, others_read(dependencies, Job.objects.all()))
    now = {name: value for name, value in told.items() if name in OF_THE_MOMENT}
    return names.named({**job.wait_evidence, **now, **_stuck(numbers)}, own_queue=job.queue)


def _stuck(numbers: Sequence[int]) -> Evidence:
    """Return the first of the jobs that cannot end before something changes, looked for up the chain of dependencies.

    Level by level and each job once: a chain may be longer than Python's stack, and paths in a net of jobs are without
    number. Beyond the limits nothing is found.
    """
    level, seen = list(numbers), set[int]()
    for _ in range(MOST_LEVELS):
        level = [number for number in level if number not in seen][: MOST_LOOKED_AT - len(seen)]
        if not level:
            break
        seen.update(level)
        jobs = Job.objects.filter(number__in=level, state__in=WAITS_FOR_OTHERS).defer("spec").order_by("number")
        waits_for: list[Dependency] = []
        for job in jobs:
            if job.state == JobState.SUSPENDED or cannot_start_itself(job.wait_reason, job.wait_evidence):
                return {"stuck_job": f"J-{job.number}", "stuck_state": job.state, "stuck_queue_id": job.queue_id}
            if job.wait_reason == WaitReason.DEPENDENCY:
                waits_for += dependencies_of(job.waits_for)
        level = list(still_open(waits_for, others_read(waits_for, Job.objects.all()))[0]) if waits_for else []
    return {}
