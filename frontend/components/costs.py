"""Costs of queues in words: what was spent, of which budget, and where the month is going."""

from decimal import Decimal
from typing import TypedDict

from frontend.components.formats import number, percent
from scheduler.selectors.cluster.costs import CostReport, QueueCostRow

TOO_EARLY, MONTH_OVER = "too early to tell", "the month is over"


class CostLine(TypedDict):
    """One queue.

    Keys:
        budget: As a field holds it; empty without one.
        used: Spent of the budget; empty without one.
        forecast: At the end of the month; says so where it is too early, or where the month is over.
        percent: Of the budget that is spent, at most 100; None without a budget.
        is_over: Whether the budget is, or is going to be, exceeded.
        has_spent: Whether it is exceeded already.
    """

    queue: str
    color_slot: int
    hours: float
    spent: str
    budget: str
    used: str
    forecast: str
    percent: float | None
    is_over: bool
    has_spent: bool


def money(amount: float, currency: str) -> str:
    """Return ``1,240 EUR``; cents below a hundred."""
    text = number(amount, 0 if abs(amount) >= 100 else 2)
    return f"{text}\u00a0{currency}" if currency else text


def amount_field(amount: float | None) -> str:
    """Return an amount as a field holds it, to the last digit: saving it as it is shown changes nothing."""
    return "" if amount is None else format(Decimal(repr(amount)), "f").removesuffix(".0")


def is_over(row: QueueCostRow) -> bool:
    """Return whether a queue has spent, or is going to spend, more than its budget."""
    budget = row["budget"]
    return budget is not None and max(row["spent"], row["forecast"] or 0.0) > budget


def cost_line(row: QueueCostRow, report: CostReport) -> CostLine:
    """Return one queue as it is shown."""
    budget, currency = row["budget"], report["currency"]
    frac = None if budget is None else row["spent"] / budget if budget else float(row["spent"] > 0)
    return {
        "queue": row["queue"],
        "color_slot": row["color_slot"],
        "hours": row["gpu_hours"],
        "spent": money(row["spent"], currency),
        "budget": amount_field(budget),
        "used": "" if budget is None else f"{percent(frac)} of {money(budget, currency)}",
        "forecast": _forecast(row, report),
        "percent": None if frac is None else min(100.0, 100 * frac),
        "is_over": is_over(row),
        "has_spent": budget is not None and row["spent"] > budget,
    }


def _forecast(row: QueueCostRow, report: CostReport) -> str:
    if report["elapsed_frac"] >= 1.0:
        return MONTH_OVER
    return TOO_EARLY if row["forecast"] is None else money(row["forecast"], report["currency"])


def costs_title(report: CostReport) -> str:
    """Return what an admin has to know first."""
    if not report["is_priced"]:
        return "No price is set, so nothing costs anything"
    over = [row for row in report["rows"] if is_over(row)]
    if len(over) > 1:
        return f"{number(len(over))} queues have spent their budgets of this month, or will have at its end"
    for row in over:
        has_spent = row["budget"] is not None and row["spent"] > row["budget"]
        return f"{row['queue']} {'has spent' if has_spent else 'will have spent'} more than its budget of this month"
    has_budget = any(row["budget"] is not None for row in report["rows"])
    return "Every queue stays within its budget this month" if has_budget else "No queue has a budget"
