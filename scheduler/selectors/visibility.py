"""Who sees and may do what: the one place that pages, REST, sockets, logs and counts ask."""

from django.contrib.auth.models import AnonymousUser, User
from django.db.models import QuerySet

from scheduler.models import Job, Queue
from scheduler.models.queue import Role

Actor = User | AnonymousUser


def role_in(user: Actor, queue: Queue) -> Role | None:
    """Return the highest role of ``user`` in ``queue`` or above it; admins are leads everywhere."""
    raise NotImplementedError


def queues_visible(user: Actor) -> QuerySet[Queue]:
    """Return the queues that ``user`` may see."""
    raise NotImplementedError


def queues_submittable(user: Actor) -> QuerySet[Queue]:
    """Return the leaf queues that ``user`` may submit to."""
    raise NotImplementedError


def jobs_visible(user: Actor) -> QuerySet[Job]:
    """Return the jobs that ``user`` may see."""
    raise NotImplementedError


def require_job(user: Actor, job_id_or_number: str | int) -> Job:
    """Return the job with this ULID, number or ``J-<number>``. Raises NotFound."""
    raise NotImplementedError


def require_queue(user: Actor, name: str) -> Queue:
    """Return the queue of this name. Raises NotFound."""
    raise NotImplementedError


def may_act_on_job(user: Actor, job: Job) -> bool:
    """Return whether ``user`` may cancel, suspend and resume ``job``."""
    raise NotImplementedError


def groups_allowed(user: Actor, group_name: str) -> bool:
    """Return whether ``user`` may listen to a WebSocket group: ``cluster``, ``queue.<pk>``, ``job.<ulid>``."""
    raise NotImplementedError
