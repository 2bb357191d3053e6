"""Makes samples coarser with age: 1 s, after an hour 10 s, after a day 60 s, after a month none.

Each value becomes the mean over its measured seconds, and ``measured_s`` keeps how many these were, so that the sum
over time (value x measured seconds) is conserved. Works in short transactions of the whole buckets of some series: it
may stop anywhere and run again.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet

from scheduler.models import Sample

# (from, to, age): samples of ``from`` seconds older than ``age`` become samples of ``to`` seconds.
STEPS = (
    (1, 10, timedelta(hours=1)),
    (10, 60, timedelta(days=1)),
)
KEPT = timedelta(days=30)
ROWS_A_DELETE = 1_000
# A bucket of 1,000 servers with a job each has 20,000 samples; what else writes need not wait for all of them.
SERIES_A_TRANSACTION = 100
# Only rises: the newest value is kept.
NOT_AVERAGED = frozenset({"step"})

SampleValues = dict[str, Any]  # JSON of Sample.values; Any: numbers, or lists of them


def samples_roll_up(*, at: datetime, go_on: Callable[[], bool] = lambda: True) -> int:
    """Coarsen what is old enough at ``at`` and delete what is too old; return how many rows went away.

    Args:
        go_on: Asked between two transactions whether to begin another one.
    """
    gone = 0
    for resolution_s, to_s, age in STEPS:
        before = _floor(at - age, to_s)
        while go_on() and (moved := _roll_up_some(resolution_s, to_s, before=before)):
            gone += moved
    while go_on() and (removed := _remove_some(before=at - KEPT)):
        gone += removed
    return gone


def _remove_some(*, before: datetime) -> int:
    old = Sample.objects.filter(resolution_s=STEPS[-1][1], at__lt=before).order_by("at")
    return Sample.objects.filter(pk__in=list(old.values_list("pk", flat=True)[:ROWS_A_DELETE])).delete()[0]


def _floor(at: datetime, step_s: int) -> datetime:
    return datetime.fromtimestamp(int(at.timestamp()) // step_s * step_s, tz=UTC)


@transaction.atomic
def _roll_up_some(resolution_s: int, to_s: int, *, before: datetime) -> int:
    """Merge the oldest buckets of some series; return how many fine rows they had."""
    fine = Sample.objects.filter(resolution_s=resolution_s, at__lt=before).order_by("at")
    oldest = fine.values_list("at", flat=True).first()
    if oldest is None:
        return 0
    start = _floor(oldest, to_s)
    rows = list(_first_series(fine.filter(at__lt=start + timedelta(seconds=to_s))))
    buckets: dict[tuple[str, str], list[Sample]] = defaultdict(list)
    for row in rows:
        buckets[row.scope, row.scope_id].append(row)
    Sample.objects.bulk_create(
        Sample(
            scope=scope,
            scope_id=scope_id,
            at=start,
            resolution_s=to_s,
            values=_merged(samples),
        )
        for (scope, scope_id), samples in sorted(buckets.items())
    )
    Sample.objects.filter(pk__in=[row.pk for row in rows]).delete()
    return len(rows)


def _first_series(rows: QuerySet[Sample]) -> QuerySet[Sample]:
    """Return the rows of the first SERIES_A_TRANSACTION series."""
    series = rows.order_by("scope", "scope_id").values_list("scope", "scope_id").distinct()
    beyond = series[SERIES_A_TRANSACTION : SERIES_A_TRANSACTION + 1].first()
    if beyond is None:
        return rows
    scope, scope_id = beyond
    return rows.filter(Q(scope__lt=scope) | Q(scope=scope, scope_id__lt=scope_id))


def _merged(samples: Sequence[Sample]) -> SampleValues:
    """Return the values of one bucket; ``samples`` have one scope and id, oldest first."""
    measured_s: dict[str, float] = defaultdict(float)
    sums: dict[str, Any] = {}  # numbers, or lists of them
    for sample in samples:
        of_sample = sample.values.get("measured_s", {})
        for name, value in sample.values.items():
            if name == "measured_s":
                continue
            seconds = float(of_sample.get(name, sample.resolution_s))
            measured_s[name] += seconds
            sums[name] = value if name in NOT_AVERAGED else _plus(sums.get(name), value, seconds)
    merged = {name: total if name in NOT_AVERAGED else _over(total, measured_s[name]) for name, total in sums.items()}
    return {**merged, "measured_s": dict(measured_s)}


def _plus(total: Any, value: Any, seconds: float) -> Any:  # numbers, or lists of numbers and None
    if isinstance(value, list):
        before = total if isinstance(total, list) and len(total) == len(value) else [0.0] * len(value)
        return [old + (new or 0.0) * seconds for old, new in zip(before, value, strict=True)]
    return (total or 0.0) + value * seconds


def _over(total: Any, seconds: float) -> Any:  # as in _plus
    return [item / seconds for item in total] if isinstance(total, list) else total / seconds
