"""Keeps a job's directory longer than its queue does, or has it or files in it removed by the agents.

The control plane has no rights in the directories of jobs. It names one by a file of its own in the shared directory;
``services/retention/directories.py`` sees when it is gone. Only jobs that have ended are ever named.
"""

import contextlib
import json
import logging
import os
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from pathlib import Path

from django.conf import settings
from django.db import transaction

from agents.protocol.shared_dir import FILE_REMOVALS_DIR, JOBS_DIR, REMOVALS_DIR
from scheduler.core.model.errors import Conflict, NotAllowed
from scheduler.core.model.lifecycle import TERMINAL, JobState
from scheduler.models import Event, Job
from scheduler.selectors.directories import KEPT_AHEAD, directory_kept_until, has_later_day, queue_keeps_until
from scheduler.selectors.files.chosen import Chosen, files_chosen
from scheduler.selectors.files.names import path_shown
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Actor, may_act_on_job, require_job
from scheduler.services.inputs import Problems
from scheduler.services.jobs.cancel_suspend_resume import job_locked
from scheduler.services.jobs.state import job_event
from scheduler.services.permission import actor_name

log = logging.getLogger(__name__)

MORE_DAYS = 30  # unless the user says how many
TOLD_PATHS = 10  # in the event of a removal


def job_keep(
    *,
    actor: Actor,
    job: Job,
    at: datetime,
    until: datetime | None = None,
    days: int | None = None,
    zone: tzinfo = UTC,
) -> Job:
    """Keep the directory of an ended job for longer than its queue does; the same date again changes nothing.

    A limit of the queue on bytes may still remove it before. Without ``until`` and ``days`` the rule of the queue alone
    holds again.

    Args:
        until: A moment after the end of that rule, in the future, a year ahead at most.
        days: Instead: so many more than it is kept now.
        zone: In which days are told.

    Raises:
        NotFound: ``actor`` may not see it.
        NotAllowed: ``actor`` is neither its owner nor a lead of its queue.
        Conflict: It has not ended, has no directory, its queue keeps it for a year or longer, or without a date it
            would be removed at once.
        SpecInvalid: A bad date or number of days.
    """
    with transaction.atomic():
        job = job_locked(actor, job)
        if JobState(job.state) not in TERMINAL:
            raise Conflict(f"J-{job.number} is {job.state}: its files are all kept. Say how long when it has ended.")
        _refuse_without_directory(job)
        if job.directory_removal_at is not None:
            raise Conflict(f"J-{job.number} has no files any more: they are removed.")
        until = _checked(job, until, days, at, zone)
        before = job.keep_directory_until
        if until != before:
            job_event(
                job=job,
                kind="directory_kept",
                at=at,
                actor=actor_name(actor),
                reason="keep" if until else "keep_no_longer",
                data={
                    "keep_until": {"before": iso(before), "after": iso(until)},
                    "day": until and _day(until, zone),
                },
                changes={"keep_directory_until": until},
            )
    return job


def kept_more(job: Job, *, days: int, at: datetime) -> datetime:
    """Return until when the directory is kept with so many days more than now."""
    return max(at, directory_kept_until(job) or at) + timedelta(days=days)


def _checked(job: Job, until: datetime | None, days: int | None, at: datetime, zone: tzinfo) -> datetime | None:
    """Return the date to store. Raises Conflict, or SpecInvalid with the range that is right."""
    by_queue = queue_keeps_until(job) or at
    if until is None and days is None:
        if by_queue <= at:
            raise Conflict(
                f"{job.queue.name} kept the files of J-{job.number} until {_day(by_queue, zone)}: without a date of "
                "its own they are removed at once. Delete them, or choose another date."
            )
        return None
    problems, last = Problems(), at + KEPT_AHEAD
    first = max(at, by_queue) if days is None else kept_more(job, days=0, at=at)
    if not has_later_day(job, at) or (days is not None and (last - first).days < 1):
        raise Conflict(
            f"The files of J-{job.number} are kept until {_day(first, zone)}; a date may be a year ahead at most."
        )
    if days is not None:
        problems.number("days", days, low=1, high=(last - first).days, label="days, up to a year from now,")
    elif until is not None and not (first < until and _day(until, zone) <= _day(last, zone)):
        why = f", until when {job.queue.name} keeps them anyway," if first > at else ""
        days_that_are_right = f"from {_day(first, zone)}{why} to {_day(last, zone)}"
        problems.add("until", "range", f"until must be a day {days_that_are_right}. You gave {_day(until, zone)}.")
    problems.refuse()
    return until if days is None else kept_more(job, days=days, at=at)


def _day(at: datetime, zone: tzinfo) -> str:
    return at.astimezone(zone).date().isoformat()


def _refuse_without_directory(job: Job) -> None:
    if job.directory_bytes is None:
        raise Conflict(f"J-{job.number} has no directory: it never started.")


def job_discard(*, actor: Actor, job: Job, at: datetime, paths: Collection[str] = ()) -> Job:
    """Have the directory of an ended job removed, or some files and folders in it; all of it once more changes nothing.

    Args:
        paths: As the list of its files shows them; none for the whole directory with its HOME.

    Raises:
        NotFound: ``actor`` may not see it, or a path is not there, is a link, or is the directory itself.
        NotAllowed: ``actor`` is neither its owner nor a lead of its queue.
        Conflict: It has not ended, never had a directory, a path is being removed already, or the request cannot be
            written for the agents.
    """
    if paths and not may_act_on_job(actor, require_job(actor, job.pk)):  # before a walk through many files
        raise NotAllowed(f"Only its owner and leads of {job.queue.name} may delete files of J-{job.number}.")
    chosen = files_chosen(job, paths) if paths else None
    with transaction.atomic():
        job = job_locked(actor, job)
        if JobState(job.state) not in TERMINAL:
            raise Conflict(f"J-{job.number} is {job.state}: what it needs is not removed. Cancel it first.")
        _refuse_without_directory(job)
        if chosen is not None:
            _refuse_asked(job, chosen)
            _files_ask(job, chosen, actor=actor_name(actor), at=at)
        elif job.directory_removal_at is None:
            directory_ask(job, actor=actor_name(actor), reason="discard", at=at)
    return job


def _refuse_asked(job: Job, chosen: Chosen) -> None:
    """Refuse what a request names that agents have not done yet: its bytes would be taken off the job twice."""
    for request in _requests(job):
        with contextlib.suppress(OSError, ValueError):
            for asked in map(tuple, json.loads(request.read_bytes())["paths"]):
                if any(asked[: len(parts)] == parts[: len(asked)] for parts in chosen.paths):
                    raise Conflict(f"{path_shown(asked)} is being deleted already. A server does it within a minute.")


def _requests(job: Job) -> list[Path]:
    """Return the requests for files of a job that is locked, those also that were only just committed.

    Such a one still has its temporary name; the event says that it was not taken back.
    """
    folder = Path(settings.SHARED_DIR) / FILE_REMOVALS_DIR
    for written in folder.glob(f".{job.pk}.*"):
        number = written.suffix[1:]
        if number.isdecimal() and Event.objects.filter(job=job, kind="files_removal", number=number).exists():
            _put_in_place(written)
    return sorted(folder.glob(f"{job.pk}.*"))


def _put_in_place(written: Path) -> None:
    """Give a request the name that agents look for, unless that was done meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        written.rename(written.with_name(written.name[1:]))


def _files_ask(job: Job, chosen: Chosen, *, actor: str, at: datetime) -> None:
    """Record that some files of an ended job are to go; its event also ends the time to take a cancel back."""
    event = job_event(
        job=job,
        kind="files_removal",
        at=at,
        actor=actor,
        reason="discard",
        data={"paths": _told(chosen.shown), "files": chosen.files, "size_bytes": chosen.num_bytes},
    )
    request = Path(settings.SHARED_DIR) / FILE_REMOVALS_DIR / f"{job.pk}.{event.number}"
    written = _request_write(request, chosen)
    transaction.on_commit(lambda: _put_in_place(written))


def _request_write(request: Path, chosen: Chosen) -> Path:
    """Write a request to the agents, for their user alone to read: names of files are the job's.

    Returns:
        Where it is until the commit; agents pass over a name with a dot before it.

    Raises:
        Conflict: It cannot be written.
    """
    folder, temporary = request.parent, request.with_name(f".{request.name}")
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary.unlink(missing_ok=True)  # of a transaction that was taken back
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with open(descriptor, "w", encoding="ascii") as file:  # names that are no text are escaped
            json.dump({"paths": chosen.paths, "disk_bytes": chosen.disk_bytes}, file)
        if os.geteuid() == 0:  # agents may have a user of their own, which owns what they made
            owner = (folder.parent / JOBS_DIR).stat().st_uid
            os.chown(folder, owner, -1)
            os.chown(temporary, owner, -1)
    except OSError as error:
        log.warning("files_removal_not_written", extra={"request": request.name, "error": str(error)})
        raise Conflict(f"Nothing is deleted: the request cannot be written ({error.strerror}).") from None
    return temporary


def files_give_up(job_id: str, request: Path, *, paths: Sequence[Sequence[str]], at: datetime) -> None:
    """Take back a request for files that no agent could remove, with an event that says so. Raises OSError."""
    with transaction.atomic():
        job = Job.objects.select_for_update().get(pk=job_id)
        job_event(
            job=job,
            kind="files_not_removed",
            at=at,
            actor="scheduler",
            reason="no_agent_could",
            data={"paths": _told(path_shown(tuple(parts)) for parts in paths), "directory": f"{JOBS_DIR}/{job.pk}"},
        )
        request.unlink()


def _told(paths: Iterable[str]) -> str:
    """Return the first paths, and how many more there are."""
    shown = list(paths)
    more = f" and {len(shown) - TOLD_PATHS} more" if len(shown) > TOLD_PATHS else ""
    return ", ".join(shown[:TOLD_PATHS]) + more


def directory_ask(job: Job, *, actor: str, reason: str, at: datetime) -> None:
    """Record that the directory of an ended job is to go; to be called in a transaction that holds the job."""
    assert JobState(job.state) in TERMINAL
    job_event(
        job=job,
        kind="directory_removal",
        at=at,
        actor=actor,
        reason=reason,
        data={"size_bytes": job.directory_bytes},
        changes={"directory_removal_at": at},
    )
    transaction.on_commit(lambda: directory_name(job.pk))


def directory_name(job_id: str) -> None:
    """Name a directory to the agents; what fails is done again in a minute."""
    folder = Path(settings.SHARED_DIR) / REMOVALS_DIR
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        (folder / job_id).touch()
