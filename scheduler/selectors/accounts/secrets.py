"""Secrets that a user may know of, as rows: names, dates and uses, never a value or its ciphertext."""

from collections import defaultdict
from collections.abc import Collection

from django.contrib.auth.models import User
from django.db.models import QuerySet

from scheduler.core.model.errors import NotAllowed
from scheduler.core.model.lifecycle import JobState
from scheduler.core.spec.env import secrets_named
from scheduler.models import Event, Job, Queue, Secret
from scheduler.models.queue import Role
from scheduler.selectors.accounts.rows import KeptSecretRow
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Actor, access_of


def secrets_of(user: User) -> QuerySet[Secret]:
    """Return the user's own secrets, by name."""
    return _readable().filter(user=user)


def secrets_of_queue(actor: Actor, queue: Queue) -> QuerySet[Secret]:
    """Return the secrets of a queue, by name.

    Raises:
        NotAllowed: ``actor``, who sees the queue, is no member of it: its jobs cannot use them.
    """
    if not access_of(actor).at_least(queue.pk, Role.MEMBER):
        raise NotAllowed(f"Only members of {queue.name} use its secrets.")
    return _readable().filter(queue=queue)


def secret_row(secret: Secret) -> KeptSecretRow:
    """Return one secret without its value."""
    return {
        "name": secret.name,
        "queue": secret.queue.name if secret.queue else None,
        "created_at": iso(secret.created_at),
        "created_by": secret.created_by,
        "changed_at": iso(secret.changed_at),
        "changed_by": secret.changed_by,
        "last_used_at": iso(secret.last_used_at),
        "last_used_by": f"J-{secret.last_used_by.number}" if secret.last_used_by else None,
    }


def _readable() -> QuerySet[Secret]:
    rows = Secret.objects.select_related("queue", "last_used_by").defer("sealed", "last_used_by__spec")
    return rows.order_by("name")


def secret_events(user: User, queue: Queue | None, limit: int = 8) -> list[Event]:
    """Return what became of the user's own secrets, or of those of a queue, newest first."""
    events = Event.objects.filter(kind="secret")
    own = events.filter(queue=queue) if queue is not None else events.filter(queue=None, actor=user.username)
    return list(own.order_by("-id")[:limit])


def jobs_waiting_for(user: User, queue: Queue | None, names: Collection[str]) -> dict[str, list[Job]]:
    """Return the jobs that wait and name secrets, by name; those of the user, or of a queue, the newest 1,000."""
    waiting = Job.objects.filter(state__in=[JobState.QUEUED, JobState.SUSPENDED], names_secrets=True)
    own = waiting.filter(queue=queue) if queue is not None else waiting.filter(owner=user)
    found: dict[str, list[Job]] = defaultdict(list)
    for job in own.order_by("-number")[:1000]:
        for name in {use.name for use in secrets_named(job.spec).values()} & set(names):
            found[name].append(job)
    return found
