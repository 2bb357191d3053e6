"""The cluster at a glance, now and over time; also exports the other reads of the overview page."""

from collections import Counter
from datetime import datetime, timedelta
from typing import Literal, get_args

from django.conf import settings
from django.db.models import Count, Sum
from django.utils import timezone

from scheduler.core.model.lifecycle import HOLDING, WAITING, JobState
from scheduler.models import Cluster, Gpu, Job, Lease, LeaseGpu, Queue, Server
from scheduler.models.event import SampleScope
from scheduler.models.server import ServerState
from scheduler.selectors.cluster.fairness import fairness, jct_summary
from scheduler.selectors.cluster.rows import ClusterFrame, QueueShareRow, ServerFrame
from scheduler.selectors.cluster.servers import fresh_from, gpu_map, silent_s
from scheduler.selectors.events import feed
from scheduler.selectors.samples import Series, series_mean
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Actor, access_of

BUSY_FROM_FRAC = 0.05  # a GPU that is held and used less is idle
OTHER_QUEUES = "other queues"
ClusterValue = Literal[
    "num_gpus",
    "busy_gpus",
    "unknown_gpus",
    "allocated_gpus",
    "drained_gpus",
    "broken_gpus",
    "waiting_jobs",
    "running_jobs",
]
# Sampled over time, beside ``used_gpus``: the sum of the utilization of all held GPUs.
CLUSTER_VALUES: tuple[ClusterValue, ...] = get_args(ClusterValue)


def cluster_now(at: datetime | None = None) -> ClusterFrame:
    """Return the ``cluster`` frame, free of names of jobs and queues, by five queries.

    Every GPU is one of allocated, free, drained and broken; ``busy_gpus`` of the allocated ones are used, of
    ``unknown_gpus`` that is not known, the rest is idle. GPUs of a server that is lost count as broken; those of one
    that joins count when it has, else a start would look like a loss.
    """
    at = at or timezone.now()
    cluster = Cluster.objects.filter(pk=1).first() or Cluster()
    allocated = set(LeaseGpu.objects.filter(released_at__isnull=True).values_list("gpu_id", flat=True))
    columns = Server.objects.only("pk", "name", "state", "device_kind", "agent_version", "last_report_at").order_by(
        "number"
    )
    servers = {server.pk: _server_frame(server, at) for server in columns}
    counts: Counter[str] = Counter()
    usable_fracs: list[float] = []
    gpus = Gpu.objects.filter(server__removed_at=None).order_by("server_id", "index")
    for pk, server_pk, index, healthy, used in gpus.values_list(
        "pk", "server_id", "index", "healthy", "utilization_frac"
    ):
        frame, is_allocated = servers[server_pk], pk in allocated
        used = used if frame["silent_s"] is None else None
        if is_allocated or frame["state"] != ServerState.JOINING:
            kind = "allocated" if is_allocated else _unheld(frame["state"]) if healthy else "broken"
            counts["num"] += 1
            counts[kind] += 1
            if healthy and used is not None and kind in ("allocated", "free"):
                usable_fracs.append(used)
            counts["busy"] += is_allocated and (used or 0.0) >= BUSY_FROM_FRAC
            counts["unknown"] += is_allocated and used is None
        frame["gpus"].append({"index": index, "healthy": healthy, "allocated": is_allocated, "utilization_frac": used})
    mean_frac = sum(usable_fracs) / len(usable_fracs) if usable_fracs else None
    return _frame(cluster, list(servers.values()), counts, mean_frac, at=at)


def _unheld(state: str) -> str:
    """Return what a healthy GPU that no job holds counts as, by the state of its server."""
    return "free" if state == ServerState.UP else "drained" if state == ServerState.DRAINING else "broken"


def _frame(
    cluster: Cluster, servers: list[ServerFrame], counts: Counter[str], mean_frac: float | None, *, at: datetime
) -> ClusterFrame:
    finished_at = cluster.round_finished_at
    is_due = finished_at is not None and not cluster.paused
    next_round_at = finished_at + timedelta(seconds=settings.ROUND_S) if is_due and finished_at else None
    active = sorted(WAITING | HOLDING)
    jobs = dict(Job.objects.filter(state__in=active).values_list("state").annotate(jobs=Count("pk")).order_by())
    return {
        "at": iso(at),
        "round": cluster.round_number,
        "round_finished_at": iso(finished_at),
        "next_round_at": iso(next_round_at),
        "paused": cluster.paused,
        "policy": cluster.policy,
        "locality": cluster.locality,
        "mechanism": cluster.mechanism,
        "num_gpus": counts["num"],
        "busy_gpus": counts["busy"],
        "unknown_gpus": counts["unknown"],
        "allocated_gpus": counts["allocated"],
        "free_gpus": counts["free"],
        "usable_gpus": counts["allocated"] + counts["free"],
        "drained_gpus": counts["drained"],
        "broken_gpus": counts["broken"],
        "mean_utilization_frac": mean_frac,
        "waiting_jobs": sum(jobs.get(state, 0) for state in WAITING),
        "running_jobs": sum(jobs.get(state, 0) for state in HOLDING),
        "servers": servers,
    }


def used_gpus(at: datetime) -> float:
    """Return the sum of the utilization of all held GPUs: 1 for each that is used in full, 0 where it is not known."""
    held = LeaseGpu.objects.filter(released_at__isnull=True).values("gpu_id")
    measured = Gpu.objects.filter(pk__in=held, server__last_report_at__gte=fresh_from(at))
    return measured.aggregate(used=Sum("utilization_frac"))["used"] or 0.0


def cluster_series(since: datetime, until: datetime, points: int) -> Series:
    """Return cluster samples averaged into at most ``points`` buckets: ``at`` and one list for each value."""
    return series_mean(
        scope=SampleScope.CLUSTER, scope_id="1", names=CLUSTER_VALUES, since=since, until=until, points=points
    )


def queue_shares(user: Actor) -> list[QueueShareRow]:
    """Return what each visible leaf queue holds; all others are one last row, "other queues", with id None."""
    if not (user.is_authenticated and user.is_active):
        return []
    access = access_of(user)
    held = held_by_queue()
    waiting = jobs_by_queue(sorted(WAITING))
    running = jobs_by_queue(sorted(HOLDING))
    rows: list[QueueShareRow] = []
    others: list[QueueShareRow] = []
    for queue in Queue.objects.filter(children__isnull=True).order_by("name"):
        row: QueueShareRow = {
            "id": queue.pk,
            "name": queue.name,
            "color_slot": queue.color_slot,
            "held_gpus": held.get(queue.pk, 0),
            "quota_gpus": queue.quota_gpus,
            "borrowed_gpus": max(0, held.get(queue.pk, 0) - queue.quota_gpus),
            "waiting_jobs": waiting.get(queue.pk, 0),
            "running_jobs": running.get(queue.pk, 0),
        }
        (rows if access.sees(queue.pk) else others).append(row)
    return [*rows, _sum(others)] if others else rows


def _sum(shares: list[QueueShareRow]) -> QueueShareRow:
    return {
        "id": None,
        "name": OTHER_QUEUES,
        "color_slot": 0,
        "held_gpus": sum(share["held_gpus"] for share in shares),
        "quota_gpus": sum(share["quota_gpus"] for share in shares),
        "borrowed_gpus": sum(share["borrowed_gpus"] for share in shares),
        "waiting_jobs": sum(share["waiting_jobs"] for share in shares),
        "running_jobs": sum(share["running_jobs"] for share in shares),
    }


def held_by_queue() -> dict[int, int]:
    """Return the GPUs in open leases by queue, each queue's own jobs alone."""
    rows = Lease.objects.filter(closed_at__isnull=True).values_list("attempt__job__queue_id")
    return dict(rows.annotate(held=Sum("num_gpus")).order_by())


def jobs_by_queue(states: list[JobState]) -> dict[int, int]:
    """Return how many jobs are in one of the states, by queue."""
    return dict(Job.objects.filter(state__in=states).values_list("queue_id").annotate(jobs=Count("pk")).order_by())


def _server_frame(server: Server, at: datetime) -> ServerFrame:
    return {
        "id": server.pk,
        "name": server.name,
        "state": server.state,
        "device_kind": server.told_device_kind,
        "simulated": server.is_simulated,
        "silent_s": silent_s(server, at),
        "gpus": [],
    }


__all__ = [
    "cluster_now",
    "cluster_series",
    "fairness",
    "feed",
    "gpu_map",
    "held_by_queue",
    "jct_summary",
    "jobs_by_queue",
    "queue_shares",
]
