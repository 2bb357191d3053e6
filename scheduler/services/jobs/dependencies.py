"""Jobs that wait for others: what a new one may name, and what the end of the others means for those that wait.

What they wait for is read in ``scheduler/selectors/jobs/many/dependencies.py``.
"""

import contextlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from scheduler.core.model.errors import FieldError, JobChanged
from scheduler.core.model.lifecycle import TERMINAL, EndCause, JobState
from scheduler.core.spec.depends_on import RIGHT, Dependency, Until, Verdict, dependencies_of, dependencies_text
from scheduler.core.spec.spec import JobSpec
from scheduler.models import Job
from scheduler.selectors.jobs.many.dependencies import WAITS_FOR_OTHERS, Other, Others, others_read
from scheduler.selectors.visibility import Access
from scheduler.services.jobs.state import BATCH, Move, jobs_transition

_WISHES = {Until.COMPLETED: "completes", Until.FAILED: "fails", Until.ENDED: "ends"}
_ENDED = {JobState.COMPLETED: "completed", JobState.FAILED: "failed", JobState.CANCELLED: "was cancelled"}


def dependency_errors(access: Access, dependencies: Sequence[Dependency]) -> list[FieldError]:
    """Return an error for each dependency that the user may not see, or that can no longer be met."""
    others = others_read(dependencies, access.jobs()) if dependencies else {}
    errors = []
    for place, one in enumerate(dependencies):
        pointer = f"/depends_on/{place}"
        if not others[one]:
            detail = f"There is no {'array' if one.is_array else 'job'} {one.subject} that you may see. Name {RIGHT}."
            errors.append(FieldError(pointer=pointer, code="unknown", detail=detail))
        elif one.verdict([other.state for other in others[one]]) is Verdict.NEVER:
            detail = f"It would never start: it is to start when {_vain(one, others[one])}."
            errors.append(FieldError(pointer=pointer, code="never", detail=detail))
    return errors


def dependencies_numbered(access: Access, spec: JobSpec, known: dict[str, int]) -> JobSpec:
    """Return the spec with the numbers of jobs that it names by id; an id that ``access`` finds no job of stays.

    Args:
        known: Numbers by id that were looked up before; what is found here is added.
    """
    asked = {one.job_id for one in spec.depends_on if one.job_id}
    if not asked:
        return spec
    if missing := asked - known.keys():
        known.update(access.jobs().filter(pk__in=missing).values_list("pk", "number"))
    numbered = (
        replace(one, number=known[one.job_id], job_id="") if one.job_id in known else one for one in spec.depends_on
    )
    return replace(spec, depends_on=tuple(dict.fromkeys(numbered)))


def dependencies_apply(*, at: datetime) -> None:
    """Strike out what has ended as jobs ask, and cancel the jobs for which it ended otherwise.

    Jobs name earlier ones alone, so one pass in the order of their numbers reaches those that wait for a job which is
    cancelled here.
    """
    waiting = Job.objects.filter(state__in=WAITS_FOR_OTHERS).exclude(waits_for="").defer("spec").order_by("number")
    jobs = list(waiting)
    if not jobs:
        return
    standings = _Standings(
        others_read({one for job in jobs for one in dependencies_of(job.waits_for)}, Job.objects.all())
    )
    cancels: list[Move] = []
    left: dict[tuple[str, str], list[str]] = defaultdict(list)
    for job in jobs:
        asked = {one: standings.of(one) for one in dependencies_of(job.waits_for)}
        vain = next((one for one in asked if asked[one].verdict is Verdict.NEVER), None)
        if vain is not None:
            cancels.append(_cancel(job, _vain(vain, asked[vain].others)))
            standings.cancelled(job.number)
            continue
        text = dependencies_text(one for one in asked if asked[one].verdict is Verdict.OPEN)
        if text != job.waits_for:
            left[job.waits_for, text].append(job.pk)
    for (before, after), pks in left.items():
        for start in range(0, len(pks), BATCH):
            Job.objects.filter(pk__in=pks[start : start + BATCH], waits_for=before).update(waits_for=after)
    with contextlib.suppress(JobChanged):  # the next round meets them as they are then
        jobs_transition(moves=cancels, at=at, actor="scheduler", reason="dependency")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Standing:
    """What has become of one dependency, and of the jobs that it is about."""

    verdict: Verdict
    others: Sequence[Other]


class _Standings:
    """How dependencies stand, each looked at once: a thousand jobs may wait for the same thousand."""

    def __init__(self, others: Others) -> None:
        self._others, self._cancelled = others, set[int]()
        self._found: dict[Dependency, _Standing] = {}
        self._about: dict[int, list[Dependency]] = defaultdict(list)  # by the number of a job
        for one, each in others.items():
            for other in each:
                self._about[other.number].append(one)

    def of(self, one: Dependency) -> _Standing:
        """Return how it stands after the cancels so far."""
        if one not in self._found:
            others = [
                replace(other, state=JobState.CANCELLED) if other.number in self._cancelled else other
                for other in self._others[one]
            ]
            self._found[one] = _Standing(verdict=one.verdict([other.state for other in others]), others=others)
        return self._found[one]

    def cancelled(self, number: int) -> None:
        """Note that a job is cancelled."""
        self._cancelled.add(number)
        for one in self._about.get(number, ()):
            self._found.pop(one, None)


def _cancel(job: Job, why: str) -> Move:
    detail = f"Never started: it was to start when {why}."
    changes = {"wanted": "cancel", "end_cause": EndCause.DEPENDENCY, "end_detail": detail}
    return Move(job=job, to=JobState.CANCELLED, changes=changes)


def _vain(one: Dependency, others: Sequence[Other]) -> str:
    """Return what is asked and what happened instead: ``J-1 completes, and it failed``. Names no job by its name."""
    wish = f"{one.subject} {_WISHES[one.until]}"
    if not others:
        return f"{wish}, and it is gone"
    if not one.is_array:
        return f"{wish}, and it {_ENDED[others[0].state]}"
    if one.until is Until.FAILED:
        return f"{wish}, and all {len(others)} of its jobs completed"
    bad = [other for other in others if other.state in TERMINAL and other.state is not JobState.COMPLETED]
    return f"{wish}, and {len(bad)} of its {len(others)} jobs did not: J-{bad[0].number} {_ENDED[bad[0].state]}"
