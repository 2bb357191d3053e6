"""One array as a whole: its jobs with their states, the newest of each index, and what may be done with them."""

from collections import Counter
from collections.abc import Sequence
from typing import Annotated, Literal, TypedDict

from scheduler.core.model.errors import NotFound
from scheduler.core.model.lifecycle import TERMINAL, JobState
from scheduler.models import Job
from scheduler.selectors.evidence import ANY_READER, wait_sentence
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
    run_s: Annotated[float, "Run time of attempts that have ended, seconds."]
    gpu_hours: Annotated[float, "Of leases that have ended."]
    submitted_at: Moment
    ended_at: Moment | None
    end_cause: str
    end_detail: str


class ArrayDetail(TypedDict):
    """An array."""

    key: Annotated[str, "A-<number of its first job>; what depends_on takes."]
    number: int
    name: str
    queue: str
    color_slot: Annotated[int, "Colour of its queue on all pages."]
    owner: str
    most_at_work: Annotated[int, "Jobs at work at once; 0 for all."]
    num_jobs: int
    states: Annotated[dict[str, int], "Jobs by state."]
    jobs: list[ArrayJobRow]
    actions: Annotated[list[ArrayAction], "What you may do with it now."]


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
    first = jobs[0]
    number = first.array_number or first.number
    return {
        "key": f"A-{number}",
        "number": number,
        "name": first.name.removesuffix(f"-{first.array_index}"),
        "queue": first.queue.name,
        "color_slot": first.queue.color_slot,
        "owner": first.owner.username,
        "most_at_work": first.array_most,
        "num_jobs": len(jobs),
        "states": dict(sorted(Counter(str(job.state) for job in jobs).items())),
        "jobs": [_row(job) for job in jobs],
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


def _row(job: Job) -> ArrayJobRow:
    return {
        "index": job.array_index or 0,
        "id": job.pk,
        "number": job.number,
        "name": job.name,
        "state": str(job.state),
        "wait_sentence": wait_sentence(job, ANY_READER),
        "step": job.step,
        "loss": job.loss,
        "run_s": job.executed_s,
        "gpu_hours": job.attained_gpu_s / 3_600,
        "submitted_at": iso(job.submitted_at),
        "ended_at": iso(job.ended_at),
        "end_cause": job.end_cause,
        "end_detail": job.end_detail,
    }
