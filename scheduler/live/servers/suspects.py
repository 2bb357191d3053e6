"""Drains servers on which attempts keep failing, until an admin undrains them.

Decides which failures count against a server: not those that other servers have at the same moment, not those of a job
that fails elsewhere as well, and those that only job output reports if jobs of two owners report them. The last server
that is up is never drained.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction

from scheduler.core.model.lifecycle import INFRASTRUCTURE
from scheduler.core.operations.failures import MACHINE
from scheduler.core.spec.units import counted
from scheduler.live.servers.inventory import server_move
from scheduler.models import Event, Lease, Server
from scheduler.models.server import ServerState

log = logging.getLogger(__name__)

DRAIN_AFTER = 3  # moments at which attempts failed
LEAST_WITNESSES = 2  # different jobs; failures that only output blames on the server need as many owners
WINDOW = timedelta(hours=1)
SAME_MOMENT = timedelta(seconds=60)


@dataclass(frozen=True, slots=True, kw_only=True)
class Incident:
    """One attempt that a failure of a machine ended, on one server that it held.

    Attributes:
        is_seen: The scheduler saw it; else only the job's output says so.
    """

    server_id: str
    job_id: str
    owner_id: int
    at: datetime
    failure: str
    is_seen: bool


def suspects_check(*, at: datetime) -> None:
    """Drain the servers that too many attempts failed on lately."""
    for server_id, incidents in sorted(suspected(_incidents(at)).items()):
        undrained_at = (
            Event.objects.filter(server_id=server_id, kind="server_state", reason="undrain")
            .order_by("-id")
            .values_list("at", flat=True)
            .first()
        )
        if undrained_at is not None:  # earlier incidents were seen by an admin
            incidents = suspected([one for one in incidents if one.at > undrained_at]).get(server_id, [])
        if incidents:
            _drain(server_id, incidents, at=at)


def suspected(incidents: Iterable[Incident]) -> dict[str, list[Incident]]:
    """Return the incidents that count against each server that has enough of them."""
    found = list(incidents)
    by_server: dict[str, list[Incident]] = defaultdict(list)
    for one in found:
        elsewhere = (other for other in found if other.server_id != one.server_id and other.failure == one.failure)
        if not any(other.job_id == one.job_id or abs(other.at - one.at) <= SAME_MOMENT for other in elsewhere):
            by_server[one.server_id].append(one)
    return {server_id: against for server_id, against in by_server.items() if _is_enough(against)}


def _is_enough(against: list[Incident]) -> bool:
    seen = [one for one in against if one.is_seen]
    counted = against if len({one.owner_id for one in against}) >= LEAST_WITNESSES else seen
    return len({one.at for one in counted}) >= DRAIN_AFTER and len({one.job_id for one in counted}) >= LEAST_WITNESSES


def _incidents(at: datetime) -> list[Incident]:
    rows = Lease.objects.filter(attempt__failure__in=sorted(MACHINE), attempt__ended_at__gte=at - WINDOW)
    columns = ("server_id", "attempt__job_id", "attempt__job__owner_id", "attempt__ended_at", "attempt__failure")
    return [
        Incident(server_id=server, job_id=job, owner_id=owner, at=ended, failure=why, is_seen=cause in INFRASTRUCTURE)
        for server, job, owner, ended, why, cause in rows.order_by("pk").values_list(*columns, "attempt__end_cause")
    ]


@transaction.atomic
def _drain(server_id: str, incidents: list[Incident], *, at: datetime) -> None:
    up = list(Server.objects.select_for_update().filter(state=ServerState.UP).order_by("number"))
    server = next((server for server in up if server.pk == server_id), None)
    if server is None or len(up) < 2:
        return
    moments, jobs = len({one.at for one in incidents}), len({one.job_id for one in incidents})
    failures = ", ".join(sorted({one.failure for one in incidents}))
    detail = f"{counted(moments, 'attempt')} of {counted(jobs, 'job')} failed on it within an hour: {failures}"
    server_move(server, to=ServerState.DRAINING, at=at, actor="scheduler", reason="failures", detail=detail)
    log.warning("server_drained", extra={"server": server_id, "incidents": moments})
