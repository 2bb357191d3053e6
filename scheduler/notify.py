"""What leaves a transaction once it is committed: the wish for an early round, and what changed for live pages.

Decides nothing. Nothing is sent for work that is rolled back, and nothing that fails here undoes what was committed: a
later beat plans anyway, and a page reads its snapshot from the database when it connects.
"""

from django.db import transaction

from scheduler.ports import Bell, live_bell

_bell: Bell | None = None


def use_bell(other: Bell | None) -> None:
    """Ring ``other`` from now on in this process; None returns to the one of ``live_bell``."""
    global _bell
    _bell = other


def bell() -> Bell:
    """Return the bell of this process."""
    return live_bell() if _bell is None else _bell


def request_round(trigger: str) -> None:
    """Ask for an early round after the present transaction commits. ``trigger`` is a short word: submit, end, ..."""
    transaction.on_commit(lambda: bell().request_round(trigger), robust=True)


def touch_job(job_id: str) -> None:
    """Mark a job as changed for live pages after the present transaction commits."""
    transaction.on_commit(lambda: bell().touch(f"job.{job_id}"), robust=True)


def touch_queue(queue_id: int) -> None:
    """Mark a queue's counts as changed for live pages after the present transaction commits."""
    transaction.on_commit(lambda: bell().touch(f"queue.{queue_id}"), robust=True)


def touch_cluster() -> None:
    """Mark the servers or the settings as changed for live pages after the present transaction commits."""
    transaction.on_commit(lambda: bell().touch("cluster"), robust=True)
