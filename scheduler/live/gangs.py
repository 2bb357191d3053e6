"""Gangs in the database: opened with their attempt, one process a GPU, told, watched, and ended all together.

Each function is one step of one transaction. A gang runs whole or not at all: the first process that ends before its
time ends all others, and the attempt is closed, and its GPUs are free, only when the last of them is known to be gone.
"""

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction
from django.db.models import Sum

from agents.gangs import GangOrder
from agents.ports import Ids
from agents.protocol import AttemptReport
from scheduler.core.lifecycle import EndCause, JobState
from scheduler.live.attempts import attempt_close, attempt_stop
from scheduler.live.retry import Ending
from scheduler.models import Attempt, Gang, GangMember, LeaseGpu, Server
from scheduler.services.job_state import job_event, job_transition

# Ports for leaders: below those that Linux hands out by itself.
PORTS = range(20_000, 32_000)
# Exit code of a process of ours that ends because another one is gone; see ``agents/runtime/gang.py``.
EXIT_BROKEN = 76
STOPPED_BY_US = frozenset({EndCause.PREEMPTED, EndCause.SUSPENDED, EndCause.CANCELLED})
RANK_ENDED = "rank_ended"
NONE_DONE = -1


@transaction.atomic
def gang_open(attempt: Attempt, *, ids: Ids, at: datetime) -> None:
    """Give every GPU of a new attempt a process; the first one leads."""
    held = LeaseGpu.objects.filter(lease__attempt=attempt, released_at=None).select_related("gpu__server")
    gpus = [row.gpu for row in held.order_by("lease__server__number", "gpu__index")]
    gang = Gang.objects.create(
        attempt=attempt, address=gpus[0].server.address, port=_free_port(attempt), secret=secrets.token_hex(16)
    )
    GangMember.objects.bulk_create(
        GangMember(id=attempt.pk if number == 0 else ids.ulid(at), gang=gang, number=number, gpu=gpu)
        for number, gpu in enumerate(gpus)
    )


def _free_port(attempt: Attempt) -> int:
    """Return a port that no other gang uses; a job that starts again gets another one."""
    taken = set(Gang.objects.filter(attempt__ended_at=None).values_list("port", flat=True))
    first = (attempt.job.number * 31 + attempt.number) % len(PORTS)
    port: int = next(port for port in (*PORTS[first:], *PORTS[:first]) if port not in taken)
    return port


def members_on(server_id: str) -> dict[str, list[GangMember]]:
    """Return the processes that a server is to run, by attempt, in the order of joining."""
    members = GangMember.objects.filter(gpu__server_id=server_id, ended_at=None, gang__attempt__ended_at=None)
    found: dict[str, list[GangMember]] = {}
    for member in members.select_related("gang", "gpu").order_by("gang_id", "number"):
        found.setdefault(member.gang_id, []).append(member)
    return found


def membership_of(gang: Gang) -> tuple[str, ...]:
    """Return who is to be in the gang, the leader first."""
    return tuple(gang.members.filter(leaving=False).order_by("number").values_list("pk", flat=True))


def gang_order(member: GangMember, membership: Sequence[str]) -> GangOrder:
    """Return what one process is told; only the leader is told who the others are."""
    gang = member.gang
    is_leader = member.pk == gang.attempt_id
    return GangOrder(
        rank=membership.index(member.pk) if member.pk in membership else len(membership),
        size=max(1, len(membership)),
        version=gang.version if is_leader else member.version,
        members=tuple(membership) if is_leader else (),
        address=gang.address,
        port=gang.port,
        secret=gang.secret,
    )


def peak_of(gang: Gang) -> int | None:
    """Return the sum of what its processes used at most, bytes; None when none has said."""
    total: int | None = gang.members.filter(ended_at=None).aggregate(total=Sum("peak_memory_bytes"))["total"]
    return total


def gang_done(gang: Gang, said: AttemptReport, *, at: datetime) -> None:
    """Take in which membership the leader is done with; a change of its size is an event of the job."""
    before = NONE_DONE if gang.done_version is None else gang.done_version
    if said.gang_version is None or said.gang_version <= before:
        return
    Gang.objects.filter(pk=gang.pk).update(done_version=said.gang_version)
    gang.done_version = said.gang_version
    if said.gang_version > 0:
        data = {"version": said.gang_version, "gpus": said.gang_size, "pause_s": said.switch_s}
        job_event(job=gang.attempt.job, kind="job_resized", at=at, actor="scheduler", reason="switched", data=data)


def is_whole(gang: Gang) -> bool:
    """Return whether every process of the first membership was seen running."""
    return not gang.members.filter(version=0, started_at=None).exists()


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """How one process ended."""

    member: GangMember
    cause: EndCause

    @property
    def is_consequence(self) -> bool:
        """Return whether it ended because of another one, or because it was asked to."""
        return self.member.exit_code == EXIT_BROKEN or self.cause in STOPPED_BY_US


@transaction.atomic
def member_end(member: GangMember, ending: Ending, *, at: datetime, actor: str) -> list[str]:
    """Record the end of one process, and what follows for the others.

    Returns:
        Ids of the servers that must be told.
    """
    ended = GangMember.objects.filter(pk=member.pk, ended_at=None).update(
        ended_at=at,
        end_cause=ending.cause,
        end_detail=ending.detail[:300],
        exit_code=ending.exit_code,
        exit_signal=ending.exit_signal,
    )
    if not ended:
        return []
    attempt = Attempt.objects.select_related("job").get(pk=member.gang_id)
    members = list(GangMember.objects.filter(gang_id=member.gang_id, leaving=False).order_by("ended_at", "number"))
    if all(one.ended_at for one in members):
        return attempt_close(attempt_id=attempt.pk, ending=_ending_of(members), at=at, actor=actor)
    if member.leaving or ending.cause is EndCause.COMPLETED:
        return []
    return _stop_others(attempt, member, at=at)


def _stop_others(attempt: Attempt, member: GangMember, *, at: datetime) -> list[str]:
    """End what is left of a gang that lost a process. Without grace: what it computes is of no use any more."""
    tell = attempt_stop(attempt_id=attempt.pk, wanted="cancel", at=at, receipt={"preempt_rule": RANK_ENDED})
    if tell and attempt.job.state in (JobState.LAUNCHING, JobState.RUNNING):
        data = {"attempt": attempt.number, "rank": member.number}
        job_transition(job=attempt.job, to=JobState.PREEMPTING, at=at, actor="scheduler", reason=RANK_ENDED, data=data)
    return tell


def _ending_of(members: Sequence[GangMember]) -> Ending:
    """Return how the attempt ended: as the process that failed first; ``members`` are in the order of their ends."""
    ends = [_End(member=member, cause=EndCause(member.end_cause)) for member in members]
    failed = [end for end in ends if not end.is_consequence and end.cause is not EndCause.COMPLETED]
    stopped = [end for end in ends if end.cause in STOPPED_BY_US]
    decisive = failed or stopped
    if not decisive and any(end.member.exit_code == EXIT_BROKEN for end in ends):
        detail = "Its processes could not reach each other any more."
        return Ending(cause=EndCause.SUPERVISOR_LOST, exit_code=EXIT_BROKEN, detail=detail)
    first = (decisive or ends)[0]
    others = len(members) - 1
    rank = f" (rank {first.member.number} of {others + 1})" if failed and others else ""
    return Ending(
        cause=first.cause,
        exit_code=first.member.exit_code,
        exit_signal=first.member.exit_signal,
        detail=f"{first.member.end_detail}{rank}".strip(),
    )


def members_lost(server: Server, *, detail: str, at: datetime) -> set[str]:
    """Record the end of every process on a server that is given up; return the servers to tell."""
    tell: set[str] = set()
    ending = Ending(cause=EndCause.SERVER_LOST, detail=detail)
    for members in members_on(server.pk).values():
        for member in members:
            tell |= set(member_end(member, ending, at=at, actor="scheduler"))
    return tell


def gang_attempts(attempt_ids: Iterable[str]) -> set[str]:
    """Return which of the attempts are gangs."""
    return set(Gang.objects.filter(pk__in=list(attempt_ids)).values_list("pk", flat=True))


def attempts_of(member_ids: Iterable[str]) -> Mapping[str, str]:
    """Return the attempt of each process, by the id that its agent knows; an attempt that is no gang is its own."""
    ids = list(member_ids)
    found = dict(GangMember.objects.filter(pk__in=ids).values_list("pk", "gang_id"))
    return {one: found.get(one, one) for one in ids}
