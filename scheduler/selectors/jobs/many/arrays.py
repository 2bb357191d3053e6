"""Arrays: a list of them with their jobs by state, and one as a whole with the newest job of each index."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Annotated, Literal, TypedDict

from django.db.models import Count, Exists, OuterRef, QuerySet

from scheduler.core.model.errors import NotFound
from scheduler.core.model.lifecycle import TERMINAL, JobState
from scheduler.models import Job
from scheduler.selectors.evidence import ANY_READER, wait_sentence
from scheduler.selectors.files.losses import JobLoss, losses_of
from scheduler.selectors.jobs.many.dependencies import array_newest
from scheduler.selectors.rows import Moment, one_of
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Access, Actor, access_of, may_act_on_job

ArrayAction = Literal["cancel", "retry"]


class ArrayJobRow(TypedDict):
    """The newest job of one index."""

    index: int
    id: Annotated[str, "ULID of the job."]
    number: int
    name: str
    state: Annotated[str, one_of(JobState)]
    wait_sentence: Annotated[str, "Why it waits, in words."]
    step: int | None
    loss: float | None
    loss_source: Annotated[
        str, "Of a loss that was not reported: its column and file, `loss in metrics.csv`; else empty."
    ]
    run_s: Annotated[float, "Run time of attempts that have ended, seconds."]
    gpu_hours: Annotated[float, "Of leases that have ended."]
    submitted_at: Moment
    ended_at: Moment | None
    end_cause: str
    end_detail: str


class ArrayRow(TypedDict):
    """An array in a list; of each index the newest job counts."""

    key: Annotated[str, "A-<number of its first job>; what depends_on takes."]
    number: int
    name: str
    queue: str
    color_slot: Annotated[int, "Colour of its queue on all pages."]
    owner: str
    most_at_work: Annotated[int, "Jobs at work at once; 0 for all."]
    num_jobs: int
    states: Annotated[dict[str, int], "Jobs by state."]
    submitted_at: Annotated[Moment, "Of its first job."]


class ArrayDetail(ArrayRow):
    """An array."""

    jobs: list[ArrayJobRow]
    unread: Annotated[int, "Jobs whose files are not all read for a loss yet."]
    actions: Annotated[list[ArrayAction], "What you may do with it now."]


def arrays_visible(user: Actor) -> QuerySet[Job]:
    """Return the oldest job there is of each array that ``user`` may see, of which ``array_rows`` makes rows."""
    jobs = access_of(user).jobs().filter(array_number__isnull=False)
    older = jobs.filter(array_number=OuterRef("array_number"), number__lt=OuterRef("number"))
    return jobs.filter(~Exists(older)).select_related("queue", "owner").defer("spec")


def array_rows(user: Actor, firsts: Sequence[Job]) -> list[ArrayRow]:
    """Return a row for each job of ``arrays_visible``; one query counts the jobs of all."""
    jobs = access_of(user).jobs().filter(array_number__in=[first.array_number for first in firsts])
    again = jobs.filter(
        array_number=OuterRef("array_number"), array_index=OuterRef("array_index"), number__gt=OuterRef("number")
    )
    counts = jobs.filter(~Exists(again)).values_list("array_number", "state").annotate(jobs=Count("pk"))
    states: dict[int, dict[str, int]] = defaultdict(dict)
    for number, state, count in counts.order_by("array_number", "state"):
        states[number or 0][str(state)] = count
    return [_array_row(first, states[first.array_number or 0]) for first in firsts]


def array_jobs(user: Actor, key: str) -> list[Job]:
    """Return the newest job of each index of the array ``A-<number>``, in the order of the indexes.

    Raises:
        NotFound: There is none that ``user`` may see.
    """
    digits = key.upper().removeprefix("A-")
    found: list[Job] = []
    if len(digits) <= 15 and digits.isascii() and digits.isdigit():
        jobs = access_of(user).jobs().filter(array_number=int(digits)).select_related("queue", "owner")
        found = list(array_newest(jobs).defer("spec").order_by("array_index"))
    if not found:
        raise NotFound(f"There is no array {key[:40]} that you may see.")
    return found


def array_detail(user: Actor, jobs: Sequence[Job]) -> ArrayDetail:
    """Return an array of which ``array_jobs`` gave the jobs."""
    first = arrays_visible(user).get(array_number=jobs[0].array_number)
    known = losses_of(jobs)
    return {
        **_array_row(first, dict(sorted(Counter(str(job.state) for job in jobs).items()))),
        "jobs": [_row(job, known.by_job[job.pk]) for job in jobs],
        "unread": known.unread,
        "actions": array_actions(user, jobs),
    }


def array_actions(user: Actor, jobs: Sequence[Job], access: Access | None = None) -> list[ArrayAction]:
    """Return what ``user`` may do: cancel what has not ended; the owner may try again what failed."""
    access = access or access_of(user)
    found: list[ArrayAction] = []
    if any(job.state not in TERMINAL and job.wanted != "cancel" and may_act_on_job(user, job, access) for job in jobs):
        found.append("cancel")
    if any(job.state == JobState.FAILED and job.owner_id == user.pk for job in jobs):
        found.append("retry")
    return found


def _array_row(first: Job, states: dict[str, int]) -> ArrayRow:
    number = first.array_number or first.number
    return {
        "key": f"A-{number}",
        "number": number,
        "name": first.name.removesuffix(f"-{first.array_index}"),
        "queue": first.queue.name,
        "color_slot": first.queue.color_slot,
        "owner": first.owner.username,
        "most_at_work": first.array_most,
        "num_jobs": sum(states.values()),
        "states": states,
        "submitted_at": iso(first.submitted_at),
    }


def _row(job: Job, loss: JobLoss) -> ArrayJobRow:
    return {
        "index": job.array_index or 0,
        "id": job.pk,
        "number": job.number,
        "name": job.name,
        "state": str(job.state),
        "wait_sentence": wait_sentence(job, ANY_READER),
        "step": loss.step if job.step is None else job.step,
        "loss": loss.value,
        "loss_source": loss.source,
        "run_s": job.executed_s,
        "gpu_hours": job.attained_gpu_s / 3_600,
        "submitted_at": iso(job.submitted_at),
        "ended_at": iso(job.ended_at),
        "end_cause": job.end_cause,
        "end_detail": job.end_detail,
    }
