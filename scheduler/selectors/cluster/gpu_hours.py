"""Where the GPU-hours of the cluster went, from samples, leases, attempts and rounds; free of names.

The kinds of each part add up to the capacity (``scheduler.core.operations.gpu_hours``).
"""

from datetime import datetime

import numpy as np
from django.db.models import Q

from scheduler.core.model.plan import WaitReason
from scheduler.core.model.tables import FloatArray
from scheduler.core.operations.gpu_hours import KINDS, gpu_seconds, overlap_gpu_s
from scheduler.models import Lease, Round
from scheduler.models.event import SampleScope
from scheduler.selectors.cluster.rows import GpuHoursReport
from scheduler.selectors.samples import series_mean
from scheduler.selectors.visibility import Actor

LEASES_READ = 50_000
ROUNDS_READ = 20_000
_MEASURED = ("num_gpus", "drained_gpus", "broken_gpus", "allocated_gpus", "busy_gpus", "unknown_gpus", "used_gpus")


def gpu_hours(user: Actor, *, since: datetime, until: datetime, points: int = 48) -> GpuHoursReport:
    """Return the GPU-hours of each kind over [since, until), in all and by part; unmeasured parts are left out."""
    if not (user.is_authenticated and user.is_active):
        return {
            "at": [],
            "part_s": 0.0,
            "totals": {},
            "capacity": 0.0,
            "hours": 0.0,
            "kinds": {kind: [] for kind in KINDS},
        }
    points = max(1, min(points, int((until - since).total_seconds())))  # no part is shorter than a sample
    series = series_mean(
        scope=SampleScope.CLUSTER, scope_id="1", names=_MEASURED, since=since, until=until, points=points
    )
    begins = np.array([datetime.fromisoformat(at).timestamp() for at in series["at"]])
    width_s = max(1.0, (until - since).total_seconds() / points)
    ends = np.minimum(begins + width_s, until.timestamp())
    measured = {name: np.array([value or 0.0 for value in series[name]]) * (ends - begins) for name in _MEASURED}
    if all(value is None for value in series["used_gpus"]):  # samples of before it was measured
        measured["used_gpus"] = measured["busy_gpus"]
    edges = np.append(since.timestamp() + width_s * np.arange(points), until.timestamp())
    places = np.rint((begins - since.timestamp()) / width_s).astype(int)
    held, reconfigure, lost = _of_leases(edges, since, until)
    found = gpu_seconds(
        num=measured["num_gpus"],
        drained=measured["drained_gpus"],
        broken=measured["broken_gpus"],
        # Few samples may all have fallen between two jobs: what a lease holds is known to the second.
        allocated=np.maximum(measured["allocated_gpus"], held[places]),
        busy=measured["busy_gpus"],
        unknown=measured["unknown_gpus"],
        used=measured["used_gpus"],
        reconfigure=reconfigure[places],
        lost=lost[places],
        fragmented_frac=_fragmented(edges, since, until)[places],
    )
    return {
        "at": series["at"],
        "part_s": width_s,
        "kinds": {kind: [round(value / 3_600, 6) for value in found[kind].tolist()] for kind in KINDS},
        "totals": {kind: float(found[kind].sum()) / 3_600 for kind in KINDS},
        "capacity": float(measured["num_gpus"].sum()) / 3_600,
        "hours": float((ends - begins).sum()) / 3_600,
    }


def _of_leases(edges: FloatArray, since: datetime, until: datetime) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return GPU-seconds that were held, of starting and stopping, and of lost work, in each bucket."""
    rows = Lease.objects.filter(Q(closed_at=None) | Q(closed_at__gt=since), opened_at__lt=until, num_gpus__gt=0)
    held: list[tuple[float, float, float]] = []
    starts: list[tuple[float, float, float]] = []
    losses: list[tuple[float, float, float]] = []
    now_s = until.timestamp()
    columns = ("num_gpus", "opened_at", "closed_at", "attempt__started_at", "attempt__stop_requested_at")
    read = rows.order_by("-opened_at").values_list(*columns, "attempt__lost_s")[:LEASES_READ]
    for gpus, opened, closed, started, stopping, lost_s in read:
        begin_s, end_s = opened.timestamp(), closed.timestamp() if closed else now_s
        ready_s = min(end_s, max(begin_s, started.timestamp())) if started else end_s
        leave_s = min(end_s, max(ready_s, stopping.timestamp())) if stopping else end_s
        held.append((begin_s, end_s, gpus))
        starts += [(begin_s, ready_s, gpus), (leave_s, end_s, gpus)]
        losses.append((max(ready_s, leave_s - (lost_s or 0.0)), leave_s, gpus))
    return _sum(held, edges), _sum(starts, edges), _sum(losses, edges)


def _sum(intervals: list[tuple[float, float, float]], edges: FloatArray) -> FloatArray:
    columns = np.array(intervals, dtype=np.float64).reshape(-1, 3)
    total = np.zeros(len(edges) - 1)
    for part in range(0, len(columns), 2_000):  # (edges x intervals) in memory
        some = columns[part : part + 2_000]
        total += overlap_gpu_s(some[:, 0], some[:, 1], some[:, 2], edges_s=edges)
    return total


def _fragmented(edges: FloatArray, since: datetime, until: datetime) -> FloatArray:
    """Return the part of each bucket in which a job waited because free GPUs were not in one place."""
    rounds = list(
        Round.objects.filter(started_at__lt=until, error="")
        .filter(started_at__gte=since)
        .order_by("-number")
        .values_list("number", "started_at", "decisions__same_as", "decisions__waiting_by_reason")[:ROUNDS_READ]
    )[::-1]
    reasons = {number: waiting for number, _, same_as, waiting in rounds if same_as is None}
    missing = {same_as for _, _, same_as, _ in rounds if same_as is not None and same_as not in reasons}
    reasons |= dict(Round.objects.filter(pk__in=missing).values_list("number", "decisions__waiting_by_reason"))
    intervals = []
    for place, (number, begun, same_as, _) in enumerate(rounds):
        until_s = rounds[place + 1][1].timestamp() if place + 1 < len(rounds) else until.timestamp()
        waiting = reasons.get(number if same_as is None else same_as) or {}
        if waiting.get(WaitReason.FRAGMENTATION):
            intervals.append((begun.timestamp(), until_s, 1.0))
    widths = np.diff(edges)
    return np.divide(_sum(intervals, edges), widths, out=np.zeros_like(widths), where=widths > 0)
