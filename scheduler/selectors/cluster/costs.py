"""What the GPU-hours of queues cost in a calendar month (UTC), against their budgets, with a forecast.

Off until an admin sets a price. A lease costs its GPU-hours times the price of its server's GPUs (their mean, where a
server has several models); leases that are no longer kept have lost their server and cost the price of all other
models. A GPU that two jobs share counts for both, as in the GPU-hours.
"""

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Annotated, TypedDict

from django.core.cache import cache
from django.db.models import Q

from scheduler.core.operations.costs import month_forecast
from scheduler.models import Cluster, Gpu, Lease, Queue, QueueBudget, UsageHour
from scheduler.selectors.visibility import Actor, access_of

HOUR_S = 3600.0
LATEST_MONTH = date(2999, 12, 1)  # the last month that a date can hold has no following one
KEPT_S = 60  # the inbox and the pages of all readers ask for the same month


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Prices per GPU-hour.

    Attributes:
        other: Of models that have no price of their own; None for none.
        by_model: Of single GPU models.
        currency: As the admin wrote it.
    """

    other: float | None
    by_model: dict[str, float]
    currency: str

    @property
    def is_on(self) -> bool:
        """Return whether anything costs something."""
        return self.other is not None or bool(self.by_model)

    def of(self, model: str) -> float:
        """Return the price of one model."""
        return self.by_model.get(model, self.other or 0.0)


class QueueCostRow(TypedDict):
    """What one queue with all below it costs in a month."""

    queue: str
    color_slot: int
    gpu_hours: float
    spent: Annotated[float, "In `currency`."]
    budget: Annotated[float | None, "null: none."]
    forecast: Annotated[float | None, "Cost at the end of the month at the pace so far; null: too early to tell."]


class CostReport(TypedDict):
    """The costs of a month."""

    month: Annotated[str, "Such as 2026-11, UTC."]
    currency: str
    is_priced: Annotated[bool, "false: no price is set, and nothing costs anything."]
    elapsed_frac: Annotated[float, "Part of the month that is over."]
    rows: list[QueueCostRow]


def prices_now() -> Prices:
    """Return the prices in force."""
    columns = ("gpu_price", "gpu_prices", "price_currency")
    other, by_model, currency = Cluster.objects.filter(pk=1).values_list(*columns).first() or (
        None,
        dict[str, float](),
        "",
    )
    return Prices(other=other, by_model=by_model, currency=currency)


def costs(user: Actor, month: date, at: datetime) -> CostReport:
    """Return what the queues that ``user`` sees cost in a month."""
    access = access_of(user)
    visible = set(access.queues().values_list("name", flat=True))
    found = costs_of_all(month, at)
    return {**found, "rows": [row for row in found["rows"] if row["queue"] in visible]}


def costs_of_all(month: date, at: datetime) -> CostReport:
    """Return what all queues cost in a month; asked often, and a minute old at most."""
    prices = prices_now()
    if not prices.is_on:
        return _report(month, at, prices, [])
    name = f"costs:{month:%Y-%m}:{hash((prices.other, *sorted(prices.by_model.items())))}"
    spent = cache.get(name)
    if spent is None:
        spent = _spent(month, at, prices)
        cache.set(name, spent, KEPT_S)
    return _report(month, at, prices, _rows(month, at, spent))


def month_of(text: str) -> date:
    """Return the first day of the month that text such as ``2026-11`` names. Raises ValueError."""
    month = datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC).date()
    if month > LATEST_MONTH:
        raise ValueError(text)
    return month


def _report(month: date, at: datetime, prices: Prices, rows: list[QueueCostRow]) -> CostReport:
    elapsed_s, month_s = _span(month, at)
    return {
        "month": f"{month:%Y-%m}",
        "currency": prices.currency,
        "is_priced": prices.is_on,
        "elapsed_frac": round(elapsed_s / month_s, 6),
        "rows": rows,
    }


def _bounds(month: date) -> tuple[datetime, datetime]:
    first = datetime(month.year, month.month, 1, tzinfo=UTC)
    return first, datetime(month.year + month.month // 12, month.month % 12 + 1, 1, tzinfo=UTC)


def _span(month: date, at: datetime) -> tuple[float, float]:
    """Return the seconds of a month that are over, and all of them."""
    first, following = _bounds(month)
    month_s = (following - first).total_seconds()
    return min(max(0.0, (at - first).total_seconds()), month_s), month_s


Spent = dict[int, tuple[float, float]]  # GPU-seconds and cost of a queue itself


def _spent(month: date, at: datetime, prices: Prices) -> Spent:
    first, following = _bounds(month)
    until = min(at, following)
    price = _price_of_servers(prices)
    sums: dict[int, list[float]] = defaultdict(lambda: [0.0, 0.0])
    leases = Lease.objects.filter(Q(closed_at=None) | Q(closed_at__gt=first), opened_at__lt=until, num_gpus__gte=1)
    columns = ("attempt__job__queue_id", "server_id", "num_gpus", "opened_at", "closed_at")
    for queue_pk, server_pk, num_gpus, opened_at, closed_at in leases.order_by().values_list(*columns).iterator():
        held_s = (min(closed_at or until, until) - max(opened_at, first)).total_seconds()
        gpu_s = num_gpus * max(0.0, held_s)
        sums[queue_pk][0] += gpu_s
        sums[queue_pk][1] += gpu_s / HOUR_S * price.get(server_pk, prices.other or 0.0)
    removed = UsageHour.objects.filter(hour__gte=first, hour__lt=until, removed_gpu_s__gt=0)
    for queue_pk, gpu_s in removed.values_list("queue_id", "removed_gpu_s"):
        sums[queue_pk][0] += gpu_s
        sums[queue_pk][1] += gpu_s / HOUR_S * (prices.other or 0.0)
    return {queue_pk: (gpu_s, cost) for queue_pk, (gpu_s, cost) in sums.items()}


def _price_of_servers(prices: Prices) -> dict[str, float]:
    by_server: dict[str, list[float]] = defaultdict(list)
    for server_pk, model in Gpu.objects.order_by("pk").values_list("server_id", "model"):
        by_server[server_pk].append(prices.of(model))
    return {server_pk: sum(found) / len(found) for server_pk, found in by_server.items()}


def _rows(month: date, at: datetime, spent: Spent) -> list[QueueCostRow]:
    """Return one row a queue, with what its descendants spent added to it."""
    queues = list(Queue.objects.order_by("name"))
    parents = {queue.pk: queue.parent_id for queue in queues}
    sums: dict[int, list[float]] = {queue.pk: [0.0, 0.0] for queue in queues}
    for pk, (gpu_s, cost) in spent.items():
        above: int | None = pk
        while above is not None and above in sums:
            sums[above][0] += gpu_s
            sums[above][1] += cost
            above = parents[above]
    budgets = dict(QueueBudget.objects.filter(month__lte=month).order_by("month").values_list("queue_id", "amount"))
    elapsed_s, month_s = _span(month, at)
    return [
        {
            "queue": queue.name,
            "color_slot": queue.color_slot,
            "gpu_hours": round(sums[queue.pk][0] / HOUR_S, 6),
            "spent": round(sums[queue.pk][1], 6),
            "budget": budgets.get(queue.pk),
            "forecast": _rounded(month_forecast(spent=sums[queue.pk][1], elapsed_s=elapsed_s, month_s=month_s)),
        }
        for queue in queues
    ]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 6)
