"""Applies one action to several jobs, each on its own: one refusal does not stop the others."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from scheduler.core.model.errors import SchedulerError
from scheduler.models import Job
from scheduler.selectors.visibility import Actor, require_job
from scheduler.services.jobs.cancel_suspend_resume import job_cancel, job_resume, job_suspend
from scheduler.services.jobs.priority import job_reprioritise
from scheduler.services.jobs.restore import job_restore

MOST_JOBS = 200
ACTIONS: Mapping[str, Callable[..., Job]] = {
    "cancel": job_cancel,
    "suspend": job_suspend,
    "resume": job_resume,
    "restore": job_restore,
    "reprioritise": job_reprioritise,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class BulkOutcome:
    """The result for one job.

    Attributes:
        key: Id or number as given.
        job: The job afterwards; None when no visible job has the key.
        refused: Why nothing was done; empty when it was.
    """

    key: str
    job: Job | None
    refused: str


def jobs_act(
    *, actor: Actor, keys: Sequence[str], action: str, at: datetime, priority: int | None = None
) -> list[BulkOutcome]:
    """Apply the action; return one outcome for each key, in their order.

    Args:
        actor: Checked for each job.
        keys: Ids or numbers, MOST_JOBS at most.
        action: A key of ACTIONS.
        at: Now.
        priority: The new priority, for ``reprioritise``.
    """
    options = {} if priority is None else {"priority": priority}
    outcomes = []
    for key in dict.fromkeys(keys[:MOST_JOBS]):
        job: Job | None = None
        refused = ""
        try:
            job = require_job(actor, key)
            job = ACTIONS[action](actor=actor, job=job, at=at, **options)
        except SchedulerError as error:
            refused = str(error)
        outcomes.append(BulkOutcome(key=key, job=job, refused=refused))
    return outcomes
