"""Gives up silent servers, and stops launches that no agent confirmed, by the scheduler's monotonic clock.

A silent server is lost after ``LEASE_TTL_S + LOST_GRACE_S``. Its agent has stopped the jobs before that, because it
counts from sending a heartbeat and the scheduler from receiving it. Raising the generation then fences it for good.
Held right by ``tests/faults``.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import F

from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.live.attempts.close import attempt_close
from scheduler.live.attempts.retry import AttemptEnd
from scheduler.live.attempts.start_stop import attempt_stop
from scheduler.live.gangs.ends import members_lost
from scheduler.live.gangs.membership import attempts_of
from scheduler.live.servers.inventory import WAS_DRAINING, server_move
from scheduler.live.servers.watch import UNCONFIRMED_AFTER_S, ServerWatch
from scheduler.live.steps import for_each
from scheduler.models import Attempt, Lease, Server
from scheduler.models.server import ServerState
from scheduler.services.jobs.state import job_transition

log = logging.getLogger(__name__)


def lost_after_s() -> float:
    """Return the silence after which a server is lost, seconds."""
    return settings.LEASE_TTL_S + settings.LOST_GRACE_S


def lost_check(watch: ServerWatch, tell: Callable[[set[str]], None], *, at: datetime, now_s: float) -> None:
    """Mark servers lost that have been silent for too long; ``tell`` gets the ids of servers to tell."""

    def look(row: tuple[str, int, int]) -> None:
        server_id, *stamp = row
        newest = (stamp[0], stamp[1])
        silent_s = watch.silent_s(server_id, stamp=newest, now_s=now_s)
        if silent_s >= lost_after_s():
            tell(server_lost(server_id, stamp=newest, silent_s=silent_s, at=at))

    rows = Server.objects.filter(state__in=[ServerState.UP, ServerState.DRAINING]).order_by("number")
    for_each(rows.values_list("pk", "report_epoch", "report_sequence"), look)


@transaction.atomic
def server_lost(server_id: str, *, stamp: tuple[int, int], silent_s: float, at: datetime) -> set[str]:
    """Fence a silent server and send its jobs back to their queues.

    Args:
        stamp: Newest (epoch, sequence) that the caller saw; nothing is done if a newer report was taken since.

    Returns:
        Ids of servers to tell, this one included; empty when it was heard meanwhile.
    """
    fenced = Server.objects.filter(pk=server_id, report_epoch=stamp[0], report_sequence=stamp[1]).update(
        generation=F("generation") + 1
    )
    if not fenced:
        return set()
    server = Server.objects.get(pk=server_id)
    detail = f"silent for {silent_s:.0f} s, given up after {lost_after_s():.0f} s"
    if server.state == ServerState.DRAINING:
        detail = f"{WAS_DRAINING}; {detail}"
    server_move(server, to=ServerState.LOST, at=at, actor="scheduler", reason="silent", detail=detail)
    ending = AttemptEnd(cause=EndCause.SERVER_LOST, detail=f"Server {server.name} was {detail}.")
    tell = {server_id, *members_lost(server, detail=ending.detail, at=at)}
    attempts = Lease.objects.filter(server=server, closed_at=None, attempt__gang=None).order_by("attempt_id")
    for attempt_id in list(attempts.values_list("attempt_id", flat=True)):
        attempt_close(attempt_id=attempt_id, ending=ending, at=at, actor="scheduler")
    log.warning("server_lost", extra={"server": server_id, "silent_s": round(silent_s, 1)})
    return tell


def unconfirmed_check(watch: ServerWatch, *, at: datetime, now_s: float) -> set[str]:
    """Ask attempts that their agents never confirmed to stop; return the ids of servers to tell.

    They are closed, and their GPUs free, only by a report on the generation that asks.
    """
    tell: set[str] = set()
    for attempt_id in sorted(set(attempts_of(watch.unconfirmed(now_s=now_s)).values())):
        tell |= set(
            attempt_ask(attempt_id, rule=EndCause.LAUNCH_UNCONFIRMED, at=at, data={"after_s": UNCONFIRMED_AFTER_S})
        )
    return tell


@transaction.atomic
def attempt_ask(attempt_id: str, *, rule: str, at: datetime, data: Mapping[str, float]) -> list[str]:
    """Ask one attempt to stop, by a rule of the scheduler; return the ids of servers to tell."""
    tell = attempt_stop(attempt_id=attempt_id, wanted="preempt", at=at, receipt={"preempt_rule": rule})
    if tell:
        job = Attempt.objects.select_related("job").get(pk=attempt_id).job
        job_transition(job=job, to=JobState.PREEMPTING, at=at, actor="scheduler", reason=rule, data=dict(data))
    return tell
