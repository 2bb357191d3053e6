"""The same thing done with several jobs: each on its own, so that one that refuses does not keep the others from it."""

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
    """What came of it for one job.

    Attributes:
        key: As it was named.
        job: Afterwards; None when there is none that may be seen.
        refused: Why nothing was done; empty when it was.
    """

    key: str
    job: Job | None
    refused: str


def jobs_act(
    *, actor: Actor, keys: Sequence[str], action: str, at: datetime, priority: int | None = None
) -> list[BulkOutcome]:
    """Do the same with several jobs; return one outcome for each name, in their order.

    Args:
        actor: Who; the rule of each job holds.
        keys: Ids or numbers, MOST_JOBS at most.
        action: A key of ACTIONS.
        at: Now.
        priority: The new one, for ``reprioritise``.
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
