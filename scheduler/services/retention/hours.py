"""Merges the GPU use of old hours to one row a day, a chunk at a time; sums stay."""

from collections import defaultdict
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F

from scheduler.models import UsageHour
from scheduler.services.retention.policy import Kept

ROWS_A_CHUNK = 1_000
SUMS = ("measured_gpu_s", "busy_gpu_s", "removed_gpu_s")


def hours_chunk_merge(kept: Kept, *, at: datetime) -> int:
    """Merge hours of the oldest day beyond the policy; return how many rows were merged."""
    oldest = kept.old(at).values_list("hour", flat=True).first()
    return 0 if oldest is None else _day_merge(oldest.replace(hour=0, minute=0, second=0, microsecond=0))


@transaction.atomic
def _day_merge(day: datetime) -> int:
    hours = UsageHour.objects.select_for_update().filter(num_hours=1, hour__gte=day, hour__lt=day + timedelta(days=1))
    rows = list(hours.order_by("queue_id", "user_id", "hour")[:ROWS_A_CHUNK])
    sums: dict[tuple[int, int], dict[str, float]] = defaultdict(lambda: dict.fromkeys(SUMS, 0.0))
    for row in rows:
        for name in SUMS:
            sums[row.queue_id, row.user_id][name] += getattr(row, name)
    UsageHour.objects.filter(pk__in=[row.pk for row in rows]).delete()
    whole = {"hour": day, "num_hours": 24}
    known = {(row.queue_id, row.user_id): row.pk for row in UsageHour.objects.filter(**whole)}
    for account, more in sums.items():
        if account in known:
            UsageHour.objects.filter(pk=known[account]).update(**{name: F(name) + more[name] for name in SUMS})
    UsageHour.objects.bulk_create(
        UsageHour(**whole, queue_id=account[0], user_id=account[1], **more)
        for account, more in sums.items()
        if account not in known
    )
    return len(rows)
