"""Signals sent after a commit: requests for an early round, and changes for live pages.

Nothing is sent for a transaction that is rolled back, and a failure here undoes nothing that was committed: a later
beat plans anyway, and a page reads the database when it connects.
"""

from collections.abc import Sequence

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
    _touch([f"job.{job_id}"])


def touch_jobs(job_ids: Sequence[str], queue_ids: Sequence[int]) -> None:
    """Mark jobs and the counts of their queues as changed, as ``touch_job`` and ``touch_queue``, in one message."""
    _touch([*(f"job.{pk}" for pk in job_ids), *(f"queue.{pk}" for pk in queue_ids)])


def touch_queue(queue_id: int) -> None:
    """Mark a queue's counts as changed for live pages after the present transaction commits."""
    _touch([f"queue.{queue_id}"])


def touch_cluster() -> None:
    """Mark the servers or the settings as changed for live pages after the present transaction commits."""
    _touch(["cluster"])


def _touch(names: Sequence[str]) -> None:
    if names:
        transaction.on_commit(lambda: bell().touch(names), robust=True)
