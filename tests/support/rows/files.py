"""Files in the directory of a job, as an attempt of it would leave them."""

import os
from pathlib import Path

from django.conf import settings

from scheduler.models import Job


def job_directory(job: Job) -> Path:
    """Return the working directory of a job, made where there is none."""
    found = Path(settings.SHARED_DIR) / "jobs" / job.pk / "dir"
    found.mkdir(parents=True, exist_ok=True)
    return found


def file_write(job: Job, path: str | bytes, content: bytes = b"") -> Path:
    """Write a file of a job; the path may have any bytes."""
    target = job_directory(job) / os.fsdecode(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(content)
    return target
