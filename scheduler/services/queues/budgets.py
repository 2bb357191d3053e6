"""Sets what a queue may cost in a month. A budget stops nothing: pages and the inbox tell when it is exceeded."""

import math
from datetime import date, datetime

from django.db import transaction

from scheduler.models import Queue, QueueBudget
from scheduler.notify import touch_queue
from scheduler.services.events import event_record
from scheduler.services.inputs import Problems
from scheduler.services.permission import Doer, require_admin

MOST_BUDGET = 1e12


def budget_set(
    *, actor: Doer, queue: Queue, month: date, amount: float | None, reason: str, at: datetime
) -> QueueBudget:
    """Set the budget of a queue with all below it from a month on; later months that have one keep it.

    Args:
        month: The first day of the month (UTC).
        amount: In the currency of the prices; None for no budget.

    Raises:
        NotAllowed: ``actor`` is no admin.
        SpecInvalid: A bad value.
    """
    require_admin(actor, f"set the budget of {queue.name}")
    problems = Problems()
    reason = problems.reason(reason)
    if amount is not None:
        problems.number(
            "amount", amount if math.isfinite(amount) else math.nan, low=0, high=MOST_BUDGET, label="budget"
        )
    problems.refuse()
    month = month.replace(day=1)
    with transaction.atomic():
        before = (
            QueueBudget.objects.filter(queue=queue, month__lte=month)
            .order_by("-month")
            .values_list("amount", flat=True)
            .first()
        )
        budget, _ = QueueBudget.objects.update_or_create(queue=queue, month=month, defaults={"amount": amount})
        data = {
            "before": {"budget": before},
            "after": {"budget": amount},
            "month": f"{month:%Y-%m}",
            "reason": reason,
        }
        event_record(kind="budget", actor=actor, at=at, reason="change", data=data, queue=queue)
        touch_queue(queue.pk)
    return budget
