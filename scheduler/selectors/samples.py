"""Measured values over time, thinned out to what a chart can show.

Samples grow coarser with age (``resolution_s``), so one window may hold several resolutions; a value then counts for as
many seconds as it stands for.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from scheduler.models import Sample

ROWS_READ = 20_000  # of one series; more than a chart can show
POINTS = 2_000

Series = dict[str, list[Any]]  # JSON: "at" and one list for each name, of one length
Measured = tuple[datetime, dict[str, Any]]  # when, and values by name


def series_mean(
    *, scope: str, scope_id: str, names: Sequence[str], since: datetime, until: datetime, points: int
) -> Series:
    """Return samples of [since, until) averaged into at most ``points`` buckets; buckets without a sample are left out.

    ``at`` is the beginning of each bucket; a value is None where it was not measured.
    """
    start_s, width_s = since.timestamp(), max(1.0, (until - since).total_seconds() / max(1, points))
    sums: dict[int, dict[str, tuple[float, float]]] = {}
    rows = Sample.objects.filter(scope=scope, scope_id=scope_id, at__gte=since, at__lt=until).order_by("-at")
    for at, resolution_s, values in rows.values_list("at", "resolution_s", "values")[:ROWS_READ]:
        bucket = sums.setdefault(int((at.timestamp() - start_s) / width_s), {})
        for name in names:
            value = values.get(name)
            if isinstance(value, int | float):
                total, weight = bucket.get(name, (0.0, 0.0))
                bucket[name] = (total + value * resolution_s, weight + resolution_s)
    series: Series = {"at": [], **{name: [] for name in names}}
    for index in sorted(sums):
        moment = datetime.fromtimestamp(start_s + index * width_s, tz=UTC)
        series["at"].append(moment.isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z")
        for name in names:
            total, weight = sums[index].get(name, (0.0, 0.0))
            series[name].append(round(total / weight, 6) if weight else None)
    return series


def series_thinned(*, scope: str, scope_id: str, names: Sequence[str], since: datetime | None) -> Series:
    """Return samples after ``since`` as they were measured, at most POINTS of them, the newest always among them."""
    rows = Sample.objects.filter(scope=scope, scope_id=scope_id).order_by("-at")
    if since is not None:
        rows = rows.filter(at__gt=since)
    return _thinned(list(rows.values_list("at", "values")[:ROWS_READ]), names)


def series_thinned_each(
    *, scope: str, scope_ids: Sequence[str], names: Sequence[str], since: datetime
) -> dict[str, Series]:
    """Return ``series_thinned`` of several things by one query, by their ids."""
    rows = Sample.objects.filter(scope=scope, scope_id__in=scope_ids, at__gt=since).order_by("-at")
    found: dict[str, list[Measured]] = {scope_id: [] for scope_id in scope_ids}
    for scope_id, at, values in rows.values_list("scope_id", "at", "values")[: ROWS_READ * len(scope_ids)]:
        found[scope_id].append((at, values))
    return {scope_id: _thinned(measured, names) for scope_id, measured in found.items()}


def newest_of_each(*, scope: str, scope_ids: Sequence[str], name: str, since: datetime) -> dict[str, float]:
    """Return the newest value of one name after ``since`` by id; ids without one are left out."""
    rows = Sample.objects.filter(scope=scope, scope_id__in=scope_ids, at__gt=since).order_by("at")
    found = rows.values_list("scope_id", "values")[:ROWS_READ]
    return {scope_id: float(values[name]) for scope_id, values in found if values.get(name) is not None}


def _thinned(found: list[Measured], names: Sequence[str]) -> Series:
    """Return a series out of samples, newest first."""
    stride = -(-len(found) // POINTS) or 1
    kept = found[::stride][::-1]
    at = [moment.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z" for moment, _ in kept]
    return {"at": at, **{name: [values.get(name) for _, values in kept] for name in names}}
