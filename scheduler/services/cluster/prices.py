"""Sets what a GPU-hour costs. Prices decide nothing: rounds never look at them."""

import math
from collections.abc import Mapping
from datetime import datetime

from django.db import transaction

from scheduler.models import Cluster
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.events import event_record
from scheduler.services.inputs import Problems
from scheduler.services.permission import Doer, require_admin

MOST_PRICE = 1_000_000.0
CURRENCY_CHARS = 12
MODEL_CHARS = 80
MOST_MODELS = 100


def prices_set(
    *,
    actor: Doer,
    gpu_price: float | None,
    gpu_prices: Mapping[str, float],
    currency: str,
    reason: str,
    at: datetime,
) -> Cluster:
    """Replace the prices of a GPU-hour; they hold for the past as well, as costs are counted when they are looked at.

    Args:
        gpu_price: Of GPU models without a price of their own; None for none.
        gpu_prices: By GPU model, as servers report it.
        currency: As it is shown behind amounts, such as EUR; empty for none.

    Raises:
        NotAllowed: ``actor`` is no admin.
        SpecInvalid: A bad value.
    """
    require_admin(actor, "set prices")
    problems = Problems()
    reason = problems.reason(reason)
    currency = problems.text("currency", currency, least=0, most=CURRENCY_CHARS)
    if gpu_price is not None:
        _check(problems, "gpu_price", gpu_price)
    if len(gpu_prices) > MOST_MODELS:
        problems.add("gpu_prices", "too_many", f"gpu_prices may name at most {MOST_MODELS} models.")
    for model, price in gpu_prices.items():
        if not 1 <= len(model) <= MODEL_CHARS:
            problems.add("gpu_prices", "length", f"A GPU model has 1 to {MODEL_CHARS} characters, not {len(model)}.")
        _check(problems, f"gpu_prices/{model[:MODEL_CHARS]}", price)
    problems.refuse()
    after = {"gpu_price": gpu_price, "gpu_prices": dict(gpu_prices), "price_currency": currency}
    cluster_row()
    with transaction.atomic():
        cluster = Cluster.objects.select_for_update().get(pk=1)
        before = {name: getattr(cluster, name) for name in after}
        Cluster.objects.filter(pk=1).update(**after)
        data = {"before": before, "after": after, "reason": reason}
        event_record(kind="prices", actor=actor, at=at, reason="change", data=data)
    cluster.refresh_from_db()
    return cluster


def _check(problems: Problems, field: str, price: float) -> None:
    is_number = isinstance(price, int | float) and not isinstance(price, bool) and math.isfinite(price)
    problems.number(field, price if is_number else math.nan, low=0, high=MOST_PRICE, label="price")
