"""Costs by prices, budgets and forecasts, against numbers that were worked out by hand."""

import json
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.core.cache import cache
from django.test import Client

from scheduler.core.model.errors import NotAllowed, SpecInvalid
from scheduler.core.model.lifecycle import JobState
from scheduler.core.operations.costs import month_forecast
from scheduler.models import Event, Gpu, Lease, Queue, UsageHour
from scheduler.selectors.cluster.alerts import alerts
from scheduler.selectors.cluster.costs import QueueCostRow, costs
from scheduler.services.cluster.prices import prices_set
from scheduler.services.queues.budgets import budget_set
from tests.support.rows.factories import job_make, member_make, queue_make, server_make, user_make

pytestmark = pytest.mark.django_db

FIRST = datetime(2026, 11, 1, tzinfo=UTC)
NOVEMBER = FIRST.date()
DAY_S = 86_400.0


@pytest.fixture(autouse=True)
def _fresh() -> None:
    """No costs of another test."""
    cache.clear()


def priced(**prices: Any) -> None:
    """Set prices: an H100 3.00, all others 1.50."""
    values = {"gpu_price": 1.5, "gpu_prices": {"H100": 3.0}, "currency": "EUR", **prices}
    prices_set(actor=user_make(admin=True), reason="contract", at=FIRST, **values)


def held(queue: Queue, *, model: str, gpus: int, since: datetime, until: datetime | None) -> None:
    """Let a job of a queue hold GPUs of a model."""
    server = server_make(gpus=gpus)
    Gpu.objects.filter(server=server).update(model=model)
    job = job_make(queue, state=JobState.RUNNING, server=server, num_gpus=gpus)
    Lease.objects.filter(attempt__job=job).update(opened_at=since, closed_at=until, num_gpus=gpus)


def row_of(queue: Queue, at: datetime, month: date = NOVEMBER) -> QueueCostRow:
    """Return what an admin reads of a queue."""
    cache.clear()
    return next(row for row in costs(user_make(admin=True), month, at)["rows"] if row["queue"] == queue.name)


def test_spent_is_hours_times_prices_of_the_month_alone() -> None:
    """2 H100 for 10 h = 60; 4 others for 5 h = 30; 3 h of one that began in October are cut at its end: 3 x 1 x 1.5."""
    priced()
    queue = queue_make("vision")
    held(queue, model="H100", gpus=2, since=FIRST + timedelta(hours=1), until=FIRST + timedelta(hours=11))
    held(queue, model="A100", gpus=4, since=FIRST + timedelta(hours=1), until=FIRST + timedelta(hours=6))
    held(queue, model="A100", gpus=1, since=FIRST - timedelta(hours=9), until=FIRST + timedelta(hours=3))
    at = FIRST + timedelta(days=10)

    found, october = row_of(queue, at), row_of(queue, at, date(2026, 10, 1))

    assert found["gpu_hours"] == 2 * 10 + 4 * 5 + 3
    assert found["spent"] == 60 + 30 + 4.5
    assert found["forecast"] == pytest.approx(94.5 * 30 / 10)
    assert (october["gpu_hours"], october["spent"], october["forecast"]) == (9, 13.5, 13.5)


def test_what_runs_counts_until_now_and_removed_jobs_at_the_price_of_all_others() -> None:
    """1 H100 for 48 h until now = 144; 7,200 GPU-seconds of removed leases = 2 h at 1.50."""
    priced()
    queue = queue_make("vision")
    held(queue, model="H100", gpus=1, since=FIRST, until=None)
    hour = FIRST + timedelta(hours=5)
    UsageHour.objects.create(hour=hour, queue=queue, user=user_make(), removed_gpu_s=7_200.0)

    assert row_of(queue, FIRST + timedelta(hours=48))["spent"] == 144 + 3


def test_parent_costs_what_its_children_do() -> None:
    """A budget of a department holds for its teams together."""
    priced()
    org = queue_make("org")
    for name in ("org/a", "org/b"):
        held(queue_make(name, parent=org), model="x", gpus=1, since=FIRST, until=FIRST + timedelta(hours=4))

    assert row_of(org, FIRST + timedelta(days=4))["spent"] == 2 * 4 * 1.5


@pytest.mark.parametrize(
    ("days", "forecast"), [(0.0, None), (2.99, None), (3.0, 900.0), (15.0, 180.0), (30.0, 90.0), (31.0, 90.0)]
)
def test_forecast_is_the_pace_so_far_and_says_nothing_early(days: float, forecast: float | None) -> None:
    """90 spent: after 3 of 30 days 90 x 30 / 3; before that too early; a month that is over cost what it cost."""
    found = month_forecast(spent=90.0, elapsed_s=days * DAY_S, month_s=30 * DAY_S)

    assert found == forecast


def test_budget_holds_from_its_month_on() -> None:
    """A later one does not change what an earlier month had."""
    priced()
    queue, admin = queue_make("vision"), user_make(admin=True)
    for month, amount in ((date(2026, 10, 1), 100.0), (date(2026, 12, 17), None)):
        budget_set(actor=admin, queue=queue, month=month, amount=amount, reason="grant", at=FIRST)

    at = datetime(2027, 2, 1, tzinfo=UTC)
    months = [date(2026, 9, 1), date(2026, 10, 1), date(2026, 11, 1), date(2026, 12, 1), date(2027, 1, 1)]
    assert [row_of(queue, at, month)["budget"] for month in months] == [None, 100.0, 100.0, None, None]
    assert [event.data["after"] for event in Event.objects.filter(kind="budget").order_by("pk")] == [
        {"budget": 100.0},
        {"budget": None},
    ]


def test_alert_when_the_forecast_exceeds_the_budget() -> None:
    """24 H100-hours after 4 days: 72, at this pace 540 by the end; a budget of 540 is kept, one of 539 is not."""
    priced()
    queue, admin = queue_make("vision"), user_make(admin=True)
    held(queue, model="H100", gpus=1, since=FIRST, until=FIRST + timedelta(hours=24))
    at, told = FIRST + timedelta(days=4), []

    for amount in (540.0, 539.0):
        budget_set(actor=admin, queue=queue, month=NOVEMBER, amount=amount, reason="grant", at=at)
        told.append([row["numbers"] for row in alerts(admin, at) if row["kind"] == "budget_over"])

    assert told == [[], [{"spent": 72.0, "budget": 539.0, "forecast": 540.0, "currency": "EUR"}]]


def test_nothing_costs_anything_without_a_price() -> None:
    """Off by default: no row, no alert, whatever the budgets say."""
    queue, admin = queue_make("vision"), user_make(admin=True)
    held(queue, model="H100", gpus=1, since=FIRST, until=None)
    budget_set(actor=admin, queue=queue, month=NOVEMBER, amount=0.0, reason="grant", at=FIRST)
    at = FIRST + timedelta(days=4)

    found = costs(admin, NOVEMBER, at)

    assert (found["is_priced"], found["rows"]) == (False, [])
    assert not [row for row in alerts(admin, at) if row["kind"] == "budget_over"]


def test_only_admins_set_them_and_bad_values_name_their_field() -> None:
    """Negative, infinite and unreasoned ones are refused."""
    queue, admin = queue_make("vision"), user_make(admin=True)
    values: dict[str, Any] = {"gpu_prices": {}, "currency": "EUR", "at": FIRST}

    with pytest.raises(NotAllowed):
        prices_set(actor=member_make(queue), gpu_price=1.0, reason="contract", **values)
    with pytest.raises(NotAllowed):
        budget_set(actor=member_make(queue), queue=queue, month=NOVEMBER, amount=1.0, reason="grant", at=FIRST)
    with pytest.raises(SpecInvalid) as refused:
        prices_set(actor=admin, gpu_price=-1.0, reason="", **{**values, "gpu_prices": {"H100": float("inf")}})
    assert [error.pointer for error in refused.value.errors] == ["/reason", "/gpu_price", "/gpu_prices/H100"]
    with pytest.raises(SpecInvalid):
        budget_set(actor=admin, queue=queue, month=NOVEMBER, amount=float("nan"), reason="grant", at=FIRST)


def test_members_read_the_costs_of_their_own_queue_alone(client: Client) -> None:
    """REST: the month, the currency, no row of another team; a bad month is refused by name."""
    priced()
    queue, other = queue_make("vision"), queue_make("speech")
    client.force_login(member_make(queue))

    found = client.get("/api/v1/costs").json()
    wrong = [client.get(f"/api/v1/costs?month={month}") for month in ("2026-13", "3000-01", "9999-12", "november")]
    refused = client.put(
        f"/api/v1/queues/{other.name}/budget",
        json.dumps({"amount": 1, "reason": "grant"}),
        content_type="application/json",
    )

    assert ([row["queue"] for row in found["rows"]], found["currency"]) == (["vision"], "EUR")
    assert [(one.status_code, one.json()["errors"][0]["pointer"]) for one in wrong] == [(400, "?month")] * len(wrong)
    assert refused.status_code == 403
