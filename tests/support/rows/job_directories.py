"""Jobs with a directory on disk, and the parts of clean-up and agent that remove it or files in it."""

from datetime import timedelta
from pathlib import Path
from typing import Any

from django.contrib.auth.models import User

from agents.files.job_removal import named_directories_remove, named_files_remove
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job, Queue
from scheduler.services.retention.remove import old_rows_remove
from tests.support.rows.factories import AT, job_make, member_make

GB = 10**9
LATER = AT + timedelta(days=31)


def made(
    shared: Path,
    queue: Queue,
    *,
    state: JobState = JobState.COMPLETED,
    size: int = GB,
    owner: User | None = None,
    **columns: Any,
) -> Job:
    """Return a job with a directory on disk."""
    job = job_make(queue, state=state, owner=owner or member_make(queue), directory_bytes=size, **columns)
    (shared / "jobs" / job.pk / "dir" / "out").mkdir(parents=True)
    (shared / "jobs" / job.pk / "dir" / "out" / "last").write_text("weights")
    return job


def clean_up(shared: Path, *, at: Any = LATER) -> None:
    """Let the clean-up and an agent do their parts, twice."""
    for _ in range(2):
        old_rows_remove(at=at, go_on=lambda: True)
        named_directories_remove(str(shared), spared=(), budget_s=10.0)
        named_files_remove(str(shared), spared=(), budget_s=10.0)
    old_rows_remove(at=at, go_on=lambda: True)
