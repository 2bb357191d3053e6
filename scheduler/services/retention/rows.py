"""Removes rows that go with their age, a chunk at a time."""

from collections.abc import Mapping
from datetime import datetime

from django.db import transaction
from django.db.models import QuerySet

from scheduler.models import Round
from scheduler.services.retention.policy import Kept

ROWS_A_CHUNK = 500
# Rows that are large, or that take others with them.
FEWER: Mapping[str, int] = {"rounds": 50, "scenarios": 2}


def chunk_remove(kept: Kept, *, at: datetime) -> int:
    """Delete the oldest rows beyond the policy; return how many rows went, with those that went with them."""
    rows = _spared(kept.old(at)) if kept.name == "rounds" else kept.old(at)
    pks = list(rows.values_list("pk", flat=True)[: FEWER.get(kept.name, ROWS_A_CHUNK)])
    if not pks:
        return 0
    with transaction.atomic():
        gone: int = kept.old(at).filter(pk__in=pks).delete()[0]  # what changed meanwhile stays
    return gone


def _spared(old: "QuerySet[Round]") -> "QuerySet[Round]":
    """Leave out the round whose decisions the oldest round that stays repeats, and the newest round of all."""
    newest_old = old.reverse().values_list("number", flat=True).first()
    if newest_old is None:
        return old
    stays = Round.objects.filter(number__gt=newest_old).order_by("number")
    first = stays.values_list("number", "decisions__same_as").first()
    spared = newest_old if first is None else first[1]
    return old if spared is None else old.exclude(number=spared)
