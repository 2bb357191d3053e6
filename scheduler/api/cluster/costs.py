"""``/costs``: what GPU-hours cost; ``/prices`` and ``/queues/{name}/budget``: what admins set for it."""

from datetime import date

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http.bodies import Body, ReasonField, read_body
from scheduler.api.http.documents import document_of
from scheduler.api.http.errors import ParametersInvalid
from scheduler.api.http.parameters import text
from scheduler.api.http.permissions import ADMIN, READ
from scheduler.api.http.view import ApiView
from scheduler.core.model.errors import FieldError
from scheduler.ports import live_ports
from scheduler.selectors.cluster.costs import CostReport, QueueCostRow, costs, month_of, prices_now
from scheduler.selectors.visibility import require_queue
from scheduler.services.cluster.prices import CURRENCY_CHARS, MOST_PRICE, prices_set
from scheduler.services.queues.budgets import MOST_BUDGET, budget_set

CostDocument = document_of(CostReport, "CostDocument", rows=document_of(QueueCostRow))


class PricesBody(Body):
    """Prices of a GPU-hour; all of them, not only what changes."""

    gpu_price = serializers.FloatField(
        min_value=0, max_value=MOST_PRICE, allow_null=True, default=None, help_text="Of all other models; null: none."
    )
    gpu_prices = serializers.DictField(
        child=serializers.FloatField(min_value=0, max_value=MOST_PRICE), default=dict, help_text="By GPU model."
    )
    currency = serializers.CharField(
        max_length=CURRENCY_CHARS, allow_blank=True, default="", help_text="As it is shown, such as EUR."
    )
    reason = ReasonField()


class BudgetBody(Body):
    """A budget of a queue with all below it."""

    amount = serializers.FloatField(
        min_value=0, max_value=MOST_BUDGET, allow_null=True, help_text="A month; null: no budget."
    )
    month = serializers.CharField(
        max_length=40, required=False, help_text="From this month (UTC) on, such as 2026-11; the present one without."
    )
    reason = ReasonField()


class PricesDocument(serializers.Serializer[object]):
    """Prices of a GPU-hour."""

    gpu_price = serializers.FloatField(allow_null=True)
    gpu_prices = serializers.DictField(child=serializers.FloatField())
    currency = serializers.CharField(allow_blank=True)


def _month(given: str, pointer: str) -> date:
    """Return the first day of a month, the present one for empty text. Raises ParametersInvalid."""
    if not given:
        return live_ports().clock.now().date().replace(day=1)
    try:
        return month_of(given)
    except ValueError:
        detail = f"{pointer.strip('?/')} must be a month such as 2026-11."
        raise ParametersInvalid([FieldError(pointer=pointer, code="invalid", detail=detail)]) from None


class Costs(ApiView):
    """What GPU-hours cost."""

    rules = {"GET": READ}
    query = {"GET": (text("month", "Such as 2026-11 (UTC); the present one without.", most=40),)}

    @extend_schema(operation_id="costs", summary="Read the costs of a month", responses={200: CostDocument})
    def get(self, request: Request) -> Response:
        """Return what each queue that you see cost in a month, its budget, and the cost at the end of the month.

        `forecast` is `spent` divided by the part of the month that is over; null in the first three days.
        """
        return Response(costs(request.user, _month(self.params["month"], "?month"), live_ports().clock.now()))


class PriceList(ApiView):
    """Prices of a GPU-hour."""

    rules = {"GET": READ, "PUT": ADMIN}

    @extend_schema(operation_id="price_list", summary="Read the prices", responses={200: PricesDocument})
    def get(self, request: Request) -> Response:
        """Return what a GPU-hour costs."""
        return _prices()

    @extend_schema(
        operation_id="prices_set",
        summary="Set the prices",
        request=PricesBody,
        responses={200: PricesDocument},
        examples=[
            OpenApiExample(
                "One price, and one of its own",
                {"gpu_price": 1.2, "gpu_prices": {"NVIDIA H100": 3.5}, "currency": "EUR", "reason": "New contract."},
                request_only=True,
            )
        ],
    )
    def put(self, request: Request) -> Response:
        """Replace the prices. They decide nothing, and hold for months that are over as well."""
        prices_set(actor=request.user, at=live_ports().clock.now(), **read_body(request, PricesBody))
        return _prices()


def _prices() -> Response:
    found = prices_now()
    return Response({"gpu_price": found.other, "gpu_prices": found.by_model, "currency": found.currency})


class Budget(ApiView):
    """What a queue may cost."""

    rules = {"PUT": ADMIN}

    @extend_schema(
        operation_id="budget_set",
        summary="Set the budget of a queue",
        request=BudgetBody,
        responses={200: CostDocument},
        examples=[OpenApiExample("5,000 a month", {"amount": 5000, "reason": "Grant."}, request_only=True)],
    )
    def put(self, request: Request, name: str) -> Response:
        """Set what a queue with all below it may cost in a month. Nothing is stopped when it is exceeded."""
        queue, at = require_queue(request.user, name), live_ports().clock.now()
        body = read_body(request, BudgetBody)
        month = _month(body.get("month", ""), "/month")
        budget_set(actor=request.user, queue=queue, month=month, amount=body["amount"], reason=body["reason"], at=at)
        report = costs(request.user, month, at)
        return Response({**report, "rows": [row for row in report["rows"] if row["queue"] == queue.name]})
