"""Prices of GPU-hours and budgets of queues, with what this month has cost and is going to cost."""

from collections.abc import Sequence
from datetime import date
from typing import TypedDict

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from frontend.components.costs import CostLine, amount_field, cost_line, costs_title
from frontend.components.errors import page
from frontend.components.viewer import now_utc
from frontend.pages.admin.views import require_admin
from scheduler.core.model.errors import FieldError, SpecInvalid
from scheduler.models import Gpu
from scheduler.selectors.cluster.costs import costs, prices_now
from scheduler.selectors.visibility import require_queue
from scheduler.services.cluster.prices import prices_set
from scheduler.services.queues.budgets import budget_set


class PriceField(TypedDict):
    """The price of one GPU model in the form."""

    model: str
    value: str


@page
@require_http_methods(["GET", "HEAD", "POST"])
def admin_costs(request: HttpRequest) -> HttpResponseBase:
    """Show this month's costs with prices and budgets; POST sets prices, or the budget of one queue (``do``)."""
    require_admin(request)
    if request.method != "POST":
        return _show(request)
    try:
        said = _budget_sent(request) if request.POST.get("do") == "budget" else _prices_sent(request)
    except SpecInvalid as error:
        return _show(request, error.errors)
    messages.success(request, said)
    return redirect("admin-costs")


def _prices_sent(request: HttpRequest) -> str:
    models = request.POST.getlist("model")
    typed = dict(zip(models, request.POST.getlist("price"), strict=False))
    prices_set(
        actor=request.user,
        gpu_price=_amount(request.POST.get("gpu_price", ""), "gpu_price"),
        gpu_prices={model: price for model, text in typed.items() if (price := _amount(text, "gpu_price")) is not None},
        currency=request.POST.get("currency", ""),
        reason=request.POST.get("reason", ""),
        at=now_utc(),
    )
    return "The prices are saved."


def _budget_sent(request: HttpRequest) -> str:
    queue, at = require_queue(request.user, request.POST.get("queue", "")), now_utc()
    amount = _amount(request.POST.get("amount", ""), "amount")
    budget_set(
        actor=request.user,
        queue=queue,
        month=at.date().replace(day=1),
        amount=amount,
        reason=request.POST.get("reason", ""),
        at=at,
    )
    return f"{queue.name} has {'no budget' if amount is None else 'another budget'} from this month on."


def _amount(text: str, field: str) -> float | None:
    """Return an amount as typed; None for an empty field. Raises SpecInvalid."""
    if not text.strip():
        return None
    try:
        return float(text.strip())
    except ValueError:
        detail = f"An amount must be a number such as 1.25, not {text.strip()[:20]!r}."
        raise SpecInvalid([FieldError(pointer=f"/{field}", code="type", detail=detail)]) from None


def _show(request: HttpRequest, errors: Sequence[FieldError] = ()) -> HttpResponse:
    at, prices = now_utc(), prices_now()
    month: date = at.date().replace(day=1)
    found = costs(request.user, month, at)
    typed = request.POST if errors and request.POST.get("do") != "budget" else {}
    pairs = zip(request.POST.getlist("model"), request.POST.getlist("price"), strict=False)
    typed_prices = dict(pairs) if typed else {}
    models = sorted({*Gpu.objects.order_by().values_list("model", flat=True).distinct(), *prices.by_model})
    lines: list[CostLine] = [cost_line(row, found) for row in found["rows"]]
    context = {
        "costs": found,
        "title": costs_title(found),
        "month_words": f"{month:%B %Y}",
        "lines": lines,
        "gpu_price": amount_field(prices.other),
        "models": [
            PriceField(model=model, value=typed_prices.get(model, amount_field(prices.by_model.get(model))))
            for model in models
        ],
        "currency": prices.currency,
        "errors": [entry.detail for entry in errors],
        "typed": typed,
    }
    return render(request, "admin/costs.html", context, status=422 if errors else 200)
