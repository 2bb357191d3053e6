"""The servers that are taken out of use, as a job's reason to wait tells of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db.models import Count, Q

from scheduler.core.model.plan import Evidence
from scheduler.models import Server
from scheduler.models.server import ServerState


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """A server that is taken out of use."""

    name: str
    num_gpus: int
    since: datetime


def drained_now() -> list[Drained]:
    """Return the drained servers, the largest first; broken GPUs do not count."""
    rows = Server.objects.filter(state=ServerState.DRAINING).annotate(
        healthy=Count("gpus", filter=Q(gpus__healthy=True))
    )
    found = rows.order_by("-healthy", "number").values_list("name", "healthy", "state_changed_at")
    return [Drained(name=name, num_gpus=healthy, since=since) for name, healthy, since in found]


def drained_evidence(drained: Sequence[Drained]) -> Evidence:
    """Return what a reason says of them: the largest, how many there are, and since when; nothing without any."""
    if not drained:
        return {}
    first = drained[0]
    return {"drained": first.name, "drained_servers": len(drained), "drained_since": first.since.isoformat()}
