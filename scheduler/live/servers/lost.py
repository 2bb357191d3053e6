"""Gives up silent servers, and stops launches that no agent confirmed, by the scheduler's monotonic clock.

A silent server is lost after ``LEASE_TTL_S + LOST_GRACE_S``. Its agent has stopped the jobs before that, because it
counts from sending a heartbeat and the scheduler from receiving it. Raising the generation then fences it for good.
The first statement of each change is guarded by the state that was read before: when a loss and a report meet, one of
them wins and the other does nothing. Where reports came but the scheduler could not apply them, the server is lost all
the same, but that counts as a failure of neither the server nor its jobs.
Held right by ``tests/faults``.
"""

import logging
from collections.abc import Callable, Mapping
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Exists, F, OuterRef, QuerySet

from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.live.attempts.close import attempt_close
from scheduler.live.attempts.retry import AttemptEnd
from scheduler.live.attempts.start_stop import attempt_stop
from scheduler.live.gangs.ends import UNAPPLIED, members_lost
from scheduler.live.gangs.membership import attempts_of
from scheduler.live.servers.inventory import WAS_DRAINING, server_move
from scheduler.live.servers.watch import UNCONFIRMED_AFTER_S, ServerWatch
from scheduler.live.steps import for_each
from scheduler.models import Attempt, GangMember, Lease, Server
from scheduler.models.server import ServerState
from scheduler.services.jobs.state import job_transition

log = logging.getLogger(__name__)

HEARD = (ServerState.UP, ServerState.DRAINING)


def lost_after_s() -> float:
    """Return the silence after which a server is lost, seconds."""
    return settings.LEASE_TTL_S + settings.LOST_GRACE_S


def lost_check(watch: ServerWatch, tell: Callable[[set[str]], None], *, at: datetime, now_s: float) -> None:
    """Mark servers lost that have been silent for too long, and end what a lost one still holds.

    ``tell`` gets the ids of servers to tell.
    """

    def look(row: tuple[str, int, int]) -> None:
        server_id, *stamp = row
        newest = (stamp[0], stamp[1])
        silent_s = watch.silent_s(server_id, stamp=newest, now_s=now_s)
        if silent_s >= lost_after_s():
            is_ours = watch.unapplied_lately(server_id, within_s=lost_after_s(), now_s=now_s)
            tell(server_lost(server_id, stamp=newest, silent_s=silent_s, at=at, is_ours=is_ours))

    rows = Server.objects.filter(state__in=[*HEARD, ServerState.LOST]).order_by("number")
    known = list(rows.values_list("pk", "report_epoch", "report_sequence", "state"))
    for_each([row[:3] for row in known if row[3] in HEARD], look)
    if lost := [pk for pk, *_, state in known if state == ServerState.LOST]:
        holding = Server.objects.filter(Exists(_alone_on(OuterRef("pk"))) | Exists(_processes_on(OuterRef("pk"))))
        finish = holding.filter(pk__in=lost).order_by("number").values_list("pk", flat=True)
        for_each(finish, lambda server_id: tell(lost_finish(server_id, at=at)))


@transaction.atomic
def server_lost(
    server_id: str, *, stamp: tuple[int, int], silent_s: float, at: datetime, is_ours: bool = False
) -> set[str]:
    """Fence a silent server and send its jobs back to their queues.

    Args:
        stamp: Newest (epoch, sequence) that the caller saw; nothing is done if a newer report was taken since.
        is_ours: Reports came, but could not be applied.

    Returns:
        Ids of servers to tell, this one included; empty when it was heard, or given up by another scheduler, meanwhile.
    """
    silent = Server.objects.filter(pk=server_id, state__in=HEARD, report_epoch=stamp[0], report_sequence=stamp[1])
    if not silent.update(generation=F("generation") + 1):
        return set()
    server = Server.objects.get(pk=server_id)
    detail = f"silent for {silent_s:.0f} s, given up after {lost_after_s():.0f} s"
    if is_ours:
        detail = f"given up after {silent_s:.0f} s in which its reports came but could not be applied"
    if server.state == ServerState.DRAINING:
        detail = f"{WAS_DRAINING}; {detail}"
    reason = UNAPPLIED if is_ours else "silent"
    server_move(server, to=ServerState.LOST, at=at, actor="scheduler", reason=reason, detail=detail)
    log.warning("server_lost", extra={"server": server_id, "silent_s": round(silent_s, 1), "ours": is_ours})
    return {server_id, *_jobs_end(server, detail=f"Server {server.name} was {detail}.", is_ours=is_ours, at=at)}


@transaction.atomic
def lost_finish(server_id: str, *, at: datetime) -> set[str]:
    """End what a lost server holds all the same: a round granted it at the moment at which it was given up.

    Returns:
        Ids of servers to tell; empty when it holds nothing, or is back.
    """
    if not _alone_on(server_id).exists() and not _processes_on(server_id).exists():
        return set()
    if not Server.objects.filter(pk=server_id, state=ServerState.LOST).update(generation=F("generation") + 1):
        return set()
    server = Server.objects.get(pk=server_id)
    log.warning("lost_server_finished", extra={"server": server_id})
    # It was no fault of the server, which never heard of it.
    detail = f"Server {server.name} was lost when it was granted."
    return {server_id, *_jobs_end(server, detail=detail, is_ours=True, at=at)}


def _alone_on(server: str | OuterRef) -> QuerySet[Lease]:
    """Return the open leases of attempts that are no gang; those of a gang close with its last process."""
    return Lease.objects.filter(server=server, closed_at=None, attempt__gang=None)


def _processes_on(server: str | OuterRef) -> QuerySet[GangMember]:
    """Return the processes of gangs that have not ended."""
    return GangMember.objects.filter(gpu__server=server, ended_at=None, gang__attempt__ended_at=None)


def _jobs_end(server: Server, *, detail: str, is_ours: bool, at: datetime) -> set[str]:
    """Send the jobs of a fenced server back to their queues; return the servers to tell."""
    ending = AttemptEnd(cause=EndCause.SERVER_LOST, detail=detail, is_ours=is_ours)
    tell = members_lost(server, ending, at=at)
    for attempt_id in list(_alone_on(server.pk).order_by("attempt_id").values_list("attempt_id", flat=True)):
        attempt_close(attempt_id=attempt_id, ending=ending, at=at, actor="scheduler")
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
