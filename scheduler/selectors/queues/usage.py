"""GPU-hours of a queue and its users over any range, and what queues lent each other.

Held GPUs come from leases, or from their sums by hour and day where they are no longer kept, never from what jobs
report. How busy they were is measured on the servers and kept by the hour, later by the day; at the edges of a range an
hour or day counts in proportion.
"""

from collections import defaultdict
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

import numpy as np
from django.db.models import Q
from django.utils import timezone

from scheduler.core.model.lifecycle import HOLDING
from scheduler.core.model.tables import FloatArray
from scheduler.core.operations.ledger import (
    Holdings,
    Loans,
    gpu_seconds,
    held_over_time,
    loans,
    means_between,
    steps_at,
)
from scheduler.core.operations.time_left import moment_after, time_left_s
from scheduler.models import Attempt, Event, Gpu, Job, Lease, Queue, Round, UsageHour
from scheduler.models.queue import Role
from scheduler.models.server import ServerState
from scheduler.selectors.queues.rows import LoanReport, LoanRow, LoansNow, UsageReport, UsageRow, UsageTotal
from scheduler.selectors.queues.tree import names_below
from scheduler.selectors.samples import Series
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Actor, access_of

HOUR_S = 3600.0
NO_LENDER = "no queue's quota"
ANOTHER = "another queue"


def usage(queue: Queue, *, since: datetime, until: datetime, at: datetime | None = None) -> UsageReport:
    """Return the GPU-hours of a queue with those below it, by queue and user, most first.

    ``busy_gpu_hours`` and ``measured_gpu_hours`` are None where nothing was measured; a GPU that two jobs share counts
    for both. ``at`` is now.
    """
    names = names_below(queue)
    leases = _leases(list(names), since=since, until=until)
    spent = gpu_seconds(_holdings(leases, dict.fromkeys(names, 0)), since_s=_s(since), until_s=_s(until))
    allocated: dict[tuple[int, str], float] = defaultdict(float)
    for (queue_pk, username, *_), gpu_s in zip(leases, spent.tolist(), strict=True):
        allocated[queue_pk, username] += gpu_s
    busy, removed = _by_the_hour(list(names), since=since, until=until, at=at or timezone.now())
    for key, gpu_s in removed.items():
        allocated[key] += gpu_s
    rows: list[UsageRow] = [
        {
            "queue": names[queue_pk],
            "user": username,
            "allocated_gpu_hours": round(allocated[queue_pk, username] / HOUR_S, 6),
            "measured_gpu_hours": _hours(busy, (queue_pk, username), 0),
            "busy_gpu_hours": _hours(busy, (queue_pk, username), 1),
        }
        for queue_pk, username in sorted({*allocated, *busy}, key=lambda key: (-allocated.get(key, 0.0), key))
        if allocated.get((queue_pk, username)) or (queue_pk, username) in busy
    ]
    total: UsageTotal = {
        "allocated_gpu_hours": round(sum(allocated.values()) / HOUR_S, 6),
        "measured_gpu_hours": round(sum(measured for measured, _ in busy.values()) / HOUR_S, 6) if busy else None,
        "busy_gpu_hours": round(sum(used for _, used in busy.values()) / HOUR_S, 6) if busy else None,
    }
    return {"queue": queue.name, "since": iso(since), "until": iso(until), "total": total, "rows": rows}


def _hours(busy: dict[tuple[int, str], tuple[float, float]], key: tuple[int, str], place: int) -> float | None:
    return round(busy[key][place] / HOUR_S, 6) if key in busy else None


Held = tuple[int, str, int, datetime, datetime | None]  # queue, user, GPUs, opened, closed


def _leases(queue_pks: Sequence[int] | None, *, since: datetime, until: datetime) -> list[Held]:
    """Return the leases of queues, None for all, that lie in a range at least in part."""
    rows = Lease.objects.filter(Q(closed_at=None) | Q(closed_at__gt=since), opened_at__lt=until, num_gpus__gte=1)
    if queue_pks is not None:
        rows = rows.filter(attempt__job__queue_id__in=queue_pks)
    columns = ("attempt__job__queue_id", "attempt__job__owner__username", "num_gpus", "opened_at", "closed_at")
    return list(rows.order_by("pk").values_list(*columns))


def _holdings(leases: Sequence[Held], account_of: dict[int, int]) -> Holdings:
    return Holdings(
        account=np.array([account_of[row[0]] for row in leases], dtype=np.int64),
        num_gpus=np.array([row[2] for row in leases], dtype=np.float64),
        begin_s=np.array([_s(row[3]) for row in leases], dtype=np.float64),
        end_s=np.array([np.inf if row[4] is None else _s(row[4]) for row in leases], dtype=np.float64),
    )


Account = tuple[int, str]  # queue, user


def _by_the_hour(
    queue_pks: list[int], *, since: datetime, until: datetime, at: datetime
) -> tuple[dict[Account, tuple[float, float]], dict[Account, float]]:
    """Return measured and busy GPU-seconds by account, and those of leases that are no longer kept.

    The hour that runs has only the part up to ``at``.
    """
    hours = UsageHour.objects.filter(queue_id__in=queue_pks, hour__gt=since - timedelta(days=1), hour__lt=until)
    used: dict[Account, tuple[float, float]] = {}
    removed: dict[Account, float] = defaultdict(float)
    for queue_pk, username, hour, num_hours, measured_gpu_s, busy_gpu_s, removed_gpu_s in hours.values_list(
        "queue_id", "user__username", "hour", "num_hours", "measured_gpu_s", "busy_gpu_s", "removed_gpu_s"
    ):
        end = min(hour + timedelta(hours=num_hours), max(at, hour + timedelta(seconds=1)))
        part = max(timedelta(0), min(until, end) - max(since, hour)) / (end - hour)
        if not part:
            continue
        removed[queue_pk, username] += part * removed_gpu_s
        if measured_gpu_s:
            measured, busy = used.get((queue_pk, username), (0.0, 0.0))
            used[queue_pk, username] = (measured + part * measured_gpu_s, busy + part * busy_gpu_s)
    return used, removed


def _s(at: datetime) -> float:
    return at.timestamp()


def share_series(queue: Queue, *, since: datetime, until: datetime, points: int) -> Series:
    """Return what a queue with the queues below it held against its quota: ``at``, ``held_gpus``, ``quota_gpus``.

    Means over ``points`` parts of the range; empty where the queue did not exist yet.
    """
    since = max(since, queue.created_at)
    if since >= until:
        return {"at": [], "held_gpus": [], "quota_gpus": []}
    below = list(names_below(queue))
    since_s, until_s = _s(since), _s(until)
    holdings = _holdings(_leases(below, since=since, until=until), dict.fromkeys(below, 0))
    changed_at_s, quotas = _quota_steps([queue], since=since)[queue.pk]
    at_s, held = held_over_time(holdings, accounts=1, since_s=since_s, until_s=until_s, also_at_s=changed_at_s)
    edges_s = np.linspace(since_s, until_s, points + 1)
    # The quota is a step: of each part the value at its end, which is the newest.
    return {
        "at": [iso(datetime.fromtimestamp(edge, tz=UTC)) for edge in edges_s[:-1].tolist()],
        "held_gpus": means_between(at_s, held[:, 0], edges_s).round(6).tolist(),
        "quota_gpus": steps_at(edges_s[1:], changed_at_s, quotas).tolist(),
    }


def _quota_steps(queues: Sequence[Queue], *, since: datetime) -> dict[int, tuple[FloatArray, FloatArray]]:
    """Return when the quota of each queue changed after ``since``, and what it was before and after each change."""
    events = Event.objects.filter(queue__in=queues, kind="quota", at__gt=since).order_by("id")
    changes: dict[int, list[tuple[float, float, float]]] = defaultdict(list)
    for queue_pk, at, data in events.values_list("queue_id", "at", "data"):
        before, after = (float(data[side]["quota_gpus"]) for side in ("before", "after"))
        changes[queue_pk].append((_s(at), before, after))
    return {
        queue.pk: (
            np.array([change[0] for change in changes[queue.pk]]),
            np.array(
                [changes[queue.pk][0][1], *(change[2] for change in changes[queue.pk])]
                if changes[queue.pk]
                else [float(queue.quota_gpus)]
            ),
        )
        for queue in queues
    }


def loan_ledger(user: Actor, queue: Queue, *, since: datetime, until: datetime) -> LoanReport:
    """Return what a queue with the queues below it lent to others and borrowed from them, in GPU-hours and now.

    Leads of the queue and admins see the names of all queues, other users only of those that they see anyway.
    """
    queues = list(Queue.objects.order_by("pk"))
    found = _loans(queues, since=since, until=until)
    recalls, inside, access = _recalls(since=since, until=until), set(names_below(queue)), access_of(user)
    tells = access.at_least(queue.pk, Role.LEAD)
    names = {row.pk: row.name if tells or access.sees(row.pk) else ANOTHER for row in queues}
    sums: dict[tuple[str, str, bool], tuple[float, float, int]] = defaultdict(lambda: (0.0, 0.0, 0))
    for lender, lent in enumerate(found.gpu_s.tolist()):
        lender_pk = queues[lender].pk if lender < len(queues) else None
        for borrower, gpu_s in enumerate(lent):
            borrower_pk = queues[borrower].pk
            times = 0 if lender_pk is None else recalls.get((lender_pk, borrower_pk), 0)
            if (lender_pk in inside) == (borrower_pk in inside) or not (gpu_s or times):
                continue
            key = (NO_LENDER if lender_pk is None else names[lender_pk], names[borrower_pk], lender_pk in inside)
            before, now = sums[key], float(found.now_gpus[lender, borrower])
            sums[key] = (before[0] + gpu_s, before[1] + now, before[2] + times)
    ends = _last_ends([row.pk for row in queues if names[row.pk] != ANOTHER], until)
    rows: list[LoanRow] = [
        {
            "lender": lender,
            "borrower": borrower,
            "is_lent": is_lent,
            "gpu_hours": round(gpu_s / HOUR_S, 6),
            "gpus_now": round(now, 3),
            "ends_at": iso(ends.get(borrower)) if now > 0 else None,
            "recalls": times,
        }
        for (lender, borrower, is_lent), (gpu_s, now, times) in sorted(
            sums.items(), key=lambda item: (-item[1][0], item[0])
        )
    ]
    now_gpus: LoansNow = {
        "lent_gpus": round(sum(row["gpus_now"] for row in rows if row["is_lent"]), 3),
        "borrowed_gpus": round(sum(row["gpus_now"] for row in rows if not row["is_lent"]), 3),
    }
    return {"since": iso(since), "until": iso(until), "now": now_gpus, "rows": rows}


def _last_ends(queue_pks: Sequence[int], at: datetime) -> dict[str, datetime]:
    """Return when the last of the jobs that run now in each queue is expected to end, by queue name.

    Expected from the steps that jobs report; a queue with a job that reports too little is left out.
    """
    running = Job.objects.filter(queue_id__in=queue_pks, state__in=sorted(HOLDING))
    found: dict[str, datetime] = {}
    unknown: set[str] = set()
    columns = ("queue__name", "step", "total_steps", "steps_per_s", "progress_at")
    for name, step, total_steps, steps_per_s, told_at in running.values_list(*columns):
        left_s = time_left_s(step=step, total_steps=total_steps, steps_per_s=steps_per_s)
        end = None if step is None or told_at is None else moment_after(told_at, left_s)
        if end is None:
            unknown.add(name)
            continue
        found[name] = max(end, at, found.get(name, at))
    return {name: end for name, end in found.items() if name not in unknown}


def lent_now(at: datetime) -> dict[str, float]:
    """Return how many GPUs of each queue's quota other queues hold, by name; for operators, who see every queue."""
    queues = list(Queue.objects.order_by("pk"))
    if not queues:
        return {}
    now_gpus = _loans(queues, since=at - timedelta(seconds=1), until=at).now_gpus
    return {queue.name: float(lent.sum()) for queue, lent in zip(queues, now_gpus, strict=False)}


def _loans(queues: Sequence[Queue], *, since: datetime, until: datetime) -> Loans:
    """Return the loans between all queues; the part of a quota that queues below have counts as theirs."""
    place = {row.pk: number for number, row in enumerate(queues)}
    steps = _quota_steps(queues, since=since)
    capacity_at_s, capacities = _capacity(since=since, until=until)
    also_at_s = np.concatenate([capacity_at_s, *(changed_at_s for changed_at_s, _ in steps.values())])
    holdings = _holdings(_leases(None, since=since, until=until), place)
    at_s, held = held_over_time(
        holdings, accounts=len(queues), since_s=_s(since), until_s=_s(until), also_at_s=also_at_s
    )
    quota = np.stack([steps_at(at_s, *steps[row.pk]) for row in queues], axis=1)
    own = quota.copy()
    for row in queues:
        if row.parent_id is not None:
            own[:, place[row.parent_id]] -= quota[:, place[row.pk]]
    return loans(at_s, held, np.maximum(0.0, own), steps_at(at_s, capacity_at_s, capacities))


def _capacity(*, since: datetime, until: datetime) -> tuple[FloatArray, FloatArray]:
    """Return when the number of GPUs that rounds give out changed, and the numbers before and after."""
    rows = Round.objects.filter(started_at__gte=since, started_at__lt=until).order_by("started_at")
    at_s: list[float] = []
    gpus: list[float] = []
    for at, num_gpus in rows.values_list("started_at", "num_gpus").iterator():
        if not gpus or gpus[-1] != num_gpus:
            at_s.append(_s(at))
            gpus.append(float(num_gpus))
    if not gpus:
        up = Gpu.objects.filter(healthy=True, server__state=ServerState.UP).count()
        return np.zeros(0), np.array([float(up)])
    return np.array(at_s[1:]), np.array(gpus)


def _recalls(*, since: datetime, until: datetime) -> dict[tuple[int, int], int]:
    """Return how often a job of one queue preempted a job of another to reclaim quota, by (lender, borrower)."""
    taken = Attempt.objects.filter(
        preempt_rule="quota_reclaim",
        preempted_by__isnull=False,
        stop_requested_at__gte=since,
        stop_requested_at__lt=until,
    )
    found: dict[tuple[int, int], int] = defaultdict(int)
    for pair in taken.values_list("preempted_by__queue_id", "job__queue_id"):
        found[pair] += 1
    return dict(found)
