"""The cluster at a glance, now and over time."""

from datetime import datetime
from typing import Any

from scheduler.selectors.visibility import Actor


def cluster_now(at: datetime | None = None) -> dict[str, Any]:
    """Return the ``cluster`` frame: free of names of jobs and queues."""
    raise NotImplementedError


def cluster_series(since: datetime, until: datetime, points: int) -> dict[str, list[Any]]:
    """Return cluster samples averaged into at most ``points`` buckets."""
    raise NotImplementedError


def queue_shares(user: Actor) -> list[dict[str, Any]]:
    """Return what each visible leaf queue holds; the rest is one row, "other queues"."""
    raise NotImplementedError


def gpu_map(user: Actor) -> list[dict[str, Any]]:
    """Return every server with its GPUs and who holds them."""
    raise NotImplementedError


def jct_summary(user: Actor, since: datetime) -> dict[str, Any]:
    """Return completion and waiting times of visible jobs that completed since."""
    raise NotImplementedError


def fairness(user: Actor) -> dict[str, Any]:
    """Return finish-time fairness of visible jobs and the Jain index over queues."""
    raise NotImplementedError


def feed(user: Actor, limit: int) -> list[dict[str, Any]]:
    """Return the newest visible events."""
    raise NotImplementedError
