"""Asks for the removal of a job's directory, and names it to the agents, which do it.

The control plane has no rights in the directories of jobs. It names one by a file of its own in the shared directory;
``services/retention/directories.py`` sees when it is gone. Only jobs that have ended are ever named.
"""

import contextlib
from datetime import datetime
from pathlib import Path

from django.conf import settings
from django.db import transaction

from agents.protocol.shared_dir import REMOVALS_DIR
from scheduler.core.model.errors import Conflict
from scheduler.core.model.lifecycle import TERMINAL, JobState
from scheduler.models import Job
from scheduler.selectors.visibility import Actor
from scheduler.services.jobs.cancel_suspend_resume import job_locked
from scheduler.services.jobs.state import job_event
from scheduler.services.permission import actor_name


def job_discard(*, actor: Actor, job: Job, at: datetime) -> Job:
    """Have the directory of an ended job removed; once more changes nothing.

    Raises:
        NotFound: ``actor`` may not see it.
        NotAllowed: ``actor`` is neither its owner nor a lead of its queue.
        Conflict: It has not ended, or never had a directory.
    """
    with transaction.atomic():
        job = job_locked(actor, job)
        if JobState(job.state) not in TERMINAL:
            raise Conflict(f"J-{job.number} is {job.state}: what it needs is not removed. Cancel it first.")
        if job.directory_bytes is None:
            raise Conflict(f"J-{job.number} has no directory: it never started.")
        if job.directory_removal_at is None:
            directory_ask(job, actor=actor_name(actor), reason="discard", at=at)
    return job


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
