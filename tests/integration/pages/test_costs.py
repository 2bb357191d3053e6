"""The page of prices and budgets keeps what was saved, and what was typed."""

from datetime import UTC, datetime

import pytest

from scheduler.services.cluster.prices import prices_set
from scheduler.services.queues.budgets import budget_set
from tests.integration.api.conftest import World

pytestmark = pytest.mark.django_db


def test_the_form_keeps_every_digit_of_prices_and_budgets(world: World) -> None:
    """What is not touched is saved as it was; a refused form keeps the prices that were typed, and them alone."""
    at, admin, client = datetime.now(UTC), world.users["admin"], world.client("admin")
    prices = {"H100": 1.2345678}
    prices_set(actor=admin, gpu_price=1_000_000.0, gpu_prices=prices, currency="EUR", reason="contract", at=at)
    budget_set(
        actor=admin, queue=world.vision, month=at.date().replace(day=1), amount=123456.789, reason="grant", at=at
    )
    typed = {"do": "prices", "model": "H100", "price": "2.5", "gpu_price": "x", "reason": "new one"}
    of_a_budget = {"do": "budget", "queue": "vision", "amount": "x", "reason": "of the budget"}

    page = client.get("/admin/costs").content.decode()
    again = client.post("/admin/costs", typed).content.decode()
    other = client.post("/admin/costs", of_a_budget).content.decode()

    assert not [value for value in ("1000000", "1.2345678", "123456.789") if f'value="{value}"' not in page]
    assert 'value="2.5"' in again
    assert 'value="of the budget"' not in other


def test_without_a_price_it_says_so_and_not_that_there_are_no_queues(world: World) -> None:
    """The first thing that an admin reads here is how to begin."""
    admin, at = world.users["admin"], datetime.now(UTC)
    prices_set(actor=admin, gpu_price=None, gpu_prices={}, currency="EUR", reason="none", at=at)
    page = world.client("admin").get("/admin/costs").content.decode()

    assert "No price is set yet" in page
    assert "There is no queue yet" not in page
