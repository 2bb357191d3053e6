"""Sets how long a queue keeps the directories of ended jobs, and how much they may take."""

from datetime import datetime

from agents.protocol.code import size_shown
from scheduler.core.model.errors import FieldError, NotAllowed, SpecInvalid
from scheduler.core.spec.units import counted
from scheduler.models import Queue
from scheduler.models.queue import Role
from scheduler.selectors.directories import KEPT_AT_LEAST
from scheduler.selectors.queues.stored import Removal, rule_removes
from scheduler.services.inputs import Problems
from scheduler.services.permission import Doer
from scheduler.services.queues.change import queue_access, queue_set

# A slip in the number must leave time to take it back before files are gone for good.
KEEP_DAYS = (KEPT_AT_LEAST.days, 3_650)
MOST_BYTES = (1024**2, 2**60)


class Unconfirmed(SpecInvalid):
    """A shorter rule that removes files, without the number of their jobs as the actor read it.

    Attributes:
        warning: What it removes and when, as a sentence.
        largest: Number of the job and size, as text, of the largest few.
    """

    def __init__(self, removal: Removal) -> None:
        self.largest = [(number, size_shown(num_bytes)) for number, num_bytes in removal.largest]
        largest = ", ".join(f"J-{number} ({size})" for number, size in self.largest)
        jobs = "1 ended job" if removal.num_jobs == 1 else f"{removal.num_jobs:,} ended jobs"
        later = f"{removal.now_jobs:,} within minutes, the others within {counted(removal.within_days, 'day')}"
        when = "within minutes" if removal.now_jobs == removal.num_jobs else later
        self.warning = f"This deletes the files of {jobs} for good, {size_shown(removal.num_bytes)}: {when}."
        detail = f"{self.warning} The largest: {largest}. Send confirmed_jobs {removal.num_jobs} to have them deleted."
        super().__init__([FieldError(pointer="/confirmed_jobs", code="unconfirmed", detail=detail)])
        self.removal = removal


def queue_keep_directories(
    *,
    actor: Doer,
    queue: Queue,
    keep_directories_days: int,
    directories_most_bytes: int | None,
    user_directories_most_bytes: int | None,
    reason: str,
    expected_version: int,
    at: datetime,
    confirmed_jobs: int | None = None,
) -> Queue:
    """Set what the queue keeps of its ended jobs. Jobs that have not ended keep all, and none is refused for it.

    Args:
        keep_directories_days: Days after the end of a job.
        directories_most_bytes: Of all jobs of the queue together; beyond it the oldest directories of ended jobs go
            before their time. None for no limit.
        user_directories_most_bytes: The same for the jobs of each user.
        reason: Why, in the actor's words, at least 3 characters; kept in the event.
        expected_version: ``Queue.version`` as the actor saw it.
        confirmed_jobs: Of how many jobs files may be removed within three days that would stay under the present rule.

    Raises:
        NotFound: ``actor`` may not see the queue.
        NotAllowed: ``actor`` is neither an admin nor a lead of the queue.
        SpecInvalid: A bad number.
        Unconfirmed: Files of more jobs than ``confirmed_jobs`` would be removed.
        Conflict: The queue changed since.
    """
    if not queue_access(actor, queue).at_least(queue.pk, Role.LEAD):
        raise NotAllowed(f"Only admins and leads of {queue.name} may say how long it keeps files.")
    problems = Problems()
    reason = problems.reason(reason)
    problems.number("keep_directories_days", keep_directories_days, low=KEEP_DAYS[0], high=KEEP_DAYS[1])
    most = {
        "directories_most_bytes": directories_most_bytes,
        "user_directories_most_bytes": user_directories_most_bytes,
    }
    for field, value in most.items():
        if value is not None:
            problems.number(field, value, low=MOST_BYTES[0], high=MOST_BYTES[1])
    problems.refuse()
    after = {"keep_directories_days": keep_directories_days, **most}
    removal = rule_removes(queue, after, at)
    if queue.version == expected_version and removal.num_jobs > (confirmed_jobs or 0):
        raise Unconfirmed(removal)
    return queue_set(
        queue, after, actor=actor, kind="kept_files", reason=reason, expected_version=expected_version, at=at
    )
