"""Signals sent after a commit: requests for an early round, and changes for live pages.

Nothing is sent for a transaction that is rolled back, and a failure here undoes nothing that was committed: a later
beat plans anyway, and a page reads the database when it connects.
"""

from django.db import transaction

from scheduler.ports import Bell, live_bell

_bell: Bell | None = None


def use_bell(other: Bell | None) -> None:
    """Use another bell in this process; None returns to ``live_bell``."""
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
