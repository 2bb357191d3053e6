"""Amounts as forms hold them, and the title of the costs."""

import pytest

from frontend.components.costs import amount_field, cost_line, costs_title
from scheduler.selectors.cluster.costs import CostReport, QueueCostRow


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (None, ""),
        (0.0, "0"),
        (5000.0, "5000"),
        (12345.67, "12345.67"),
        (1234567.5, "1234567.5"),
        (1e12, "1000000000000"),
        (0.00001, "0.00001"),
    ],
)
def test_field_holds_an_amount_to_the_last_digit(amount: float | None, shown: str) -> None:
    """Without an exponent; a form that is saved as it is shown changes no amount."""
    assert amount_field(amount) == shown
    assert amount is None or float(shown) == amount


def report(*spent_and_forecast: tuple[float, float | None]) -> CostReport:
    """Return a report of queues with a budget of 100 each."""
    rows: list[QueueCostRow] = [
        {"queue": f"q{at}", "color_slot": 1, "gpu_hours": 1.0, "spent": spent, "budget": 100.0, "forecast": forecast}
        for at, (spent, forecast) in enumerate(spent_and_forecast)
    ]
    return {"month": "2026-11", "currency": "EUR", "is_priced": True, "elapsed_frac": 0.5, "rows": rows}


def test_month_that_is_over_has_no_forecast() -> None:
    """What was spent is all that there is to say."""
    over = report((50.0, 50.0))
    over["elapsed_frac"] = 1.0

    assert cost_line(over["rows"][0], over)["forecast"] == "the month is over"
    assert cost_line(report((50.0, None))["rows"][0], report((50.0, None)))["forecast"] == "too early to tell"


@pytest.mark.parametrize(
    ("rows", "title"),
    [
        ([(50.0, 100.0)], "Every queue stays within its budget this month"),
        ([(60.0, 120.0), (1.0, 2.0)], "q0 will have spent more than its budget of this month"),
        ([(130.0, 260.0)], "q0 has spent more than its budget of this month"),
        ([(130.0, 260.0), (60.0, 120.0)], "2 queues have spent their budgets of this month, or will have at its end"),
    ],
)
def test_title_tells_what_is_spent_from_what_is_foreseen(rows: list[tuple[float, float]], title: str) -> None:
    """A budget that is spent is no forecast."""
    assert costs_title(report(*rows)) == title
