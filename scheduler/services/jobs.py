"""What users do with jobs: submit, cancel, suspend, resume."""

from datetime import datetime

from agents.ports import Ids
from scheduler.core.spec import JobSpec
from scheduler.models import Job
from scheduler.selectors.visibility import Actor


def job_check(*, actor: Actor, data: object) -> JobSpec:
    """Return the spec if ``actor`` could submit it now. Raises SpecInvalid, NotAllowed."""
    raise NotImplementedError


def job_submit(*, actor: Actor, spec: JobSpec, at: datetime, ids: Ids) -> Job:
    """Store a new job in state queued. Raises SpecInvalid, NotAllowed."""
    raise NotImplementedError


def job_cancel(*, actor: Actor, job: Job, at: datetime) -> Job:
    """End a job for good. Raises NotFound, NotAllowed, Conflict."""
    raise NotImplementedError


def job_suspend(*, actor: Actor, job: Job, at: datetime) -> Job:
    """Pause a job until it is resumed. Raises NotFound, NotAllowed, Conflict."""
    raise NotImplementedError


def job_resume(*, actor: Actor, job: Job, at: datetime) -> Job:
    """Put a suspended job back in its queue. Raises NotFound, NotAllowed, Conflict."""
    raise NotImplementedError
