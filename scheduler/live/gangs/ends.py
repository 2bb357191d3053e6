"""How gangs end: the first process that ends early stops all others.

Each function is one step of one transaction. The attempt is closed, and its GPUs are free, only when the last process
is known to be gone. A process that leaves because the share shrank only gives its GPU back.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from agents.protocol.signing import AttemptReport
from scheduler.core.model.lifecycle import RANK_ENDED, EndCause, JobState
from scheduler.core.operations.failures import FailureClass
from scheduler.live.attempts.close import attempt_close
from scheduler.live.attempts.retry import AttemptEnd
from scheduler.live.attempts.start_stop import attempt_stop
from scheduler.live.gangs.membership import members_on
from scheduler.live.gangs.shares import gpu_give_back, member_leaves
from scheduler.models import Attempt, Event, Gang, GangMember, Server
from scheduler.services.jobs.state import job_event, job_transition

# Exit code of the runtime when a process ends because another one is gone; see ``agents/runtime/gang.py``.
EXIT_BROKEN = 76
STOPPED_BY_US = frozenset({EndCause.PREEMPTED, EndCause.SUSPENDED, EndCause.CANCELLED})
COMPLAINTS = frozenset({FailureClass.MPI, FailureClass.NETWORK})
# Reason of the event of a server that was given up although it reported: we could not apply what it said.
UNAPPLIED = "unapplied"
NONE_DONE = -1


def gang_done(gang: Gang, said: AttemptReport, *, at: datetime) -> None:
    """Record which membership the leader has switched to; a change of size is an event of the job."""
    before = NONE_DONE if gang.done_version is None else gang.done_version
    if said.gang_version is None or said.gang_version <= before:
        return
    Gang.objects.filter(pk=gang.pk).update(done_version=said.gang_version)
    gang.done_version = said.gang_version
    if said.gang_version > 0:
        data = {"version": said.gang_version, "gpus": said.gang_size, "pause_s": said.switch_s}
        job_event(job=gang.attempt.job, kind="job_resized", at=at, actor="scheduler", reason="switched", data=data)


@dataclass(frozen=True, slots=True, kw_only=True)
class _End:
    """How one process ended."""

    member: GangMember
    cause: EndCause

    @property
    def is_consequence(self) -> bool:
        """Return whether it ended because another process did, or because it was asked to."""
        return self.member.exit_code == EXIT_BROKEN or self.cause in STOPPED_BY_US


@transaction.atomic
def member_end(member: GangMember, ending: AttemptEnd, *, at: datetime, actor: str) -> list[str]:
    """Record the end of one process, and stop or shrink its gang.

    Returns:
        Ids of the servers that must be told.
    """
    ended = GangMember.objects.filter(pk=member.pk, ended_at=None).update(
        ended_at=at,
        end_cause=ending.cause,
        end_detail=ending.detail[:300],
        exit_code=ending.exit_code,
        exit_signal=ending.exit_signal,
        failure=ending.failure or "",
        failure_line=ending.line[:300],
    )
    if not ended:
        return []
    attempt = Attempt.objects.select_related("job").get(pk=member.gang_id)
    members = GangMember.objects.filter(gang_id=member.gang_id)
    if not members.filter(ended_at=None).exists():
        stayed = list(members.filter(leaving=False).order_by("ended_at", "number"))
        return attempt_close(attempt_id=attempt.pk, ending=_ending_of(stayed), at=at, actor=actor)
    if member.leaving:
        return gpu_give_back(attempt, member, at=at)
    if ending.cause is EndCause.COMPLETED:
        return []
    if member.version > (member.gang.done_version or 0) and attempt.wanted == "run":
        # It never trained: the others go on without it.
        member_leaves(member)
        return gpu_give_back(attempt, member, at=at)
    return _stop_others(attempt, member, at=at)


def _stop_others(attempt: Attempt, member: GangMember, *, at: datetime) -> list[str]:
    """Stop the rest of a gang that lost a process, without grace: its work is of no use any more."""
    tell = attempt_stop(attempt_id=attempt.pk, wanted="cancel", at=at, receipt={"preempt_rule": RANK_ENDED})
    if tell and attempt.job.state in (JobState.LAUNCHING, JobState.RUNNING):
        data = {"attempt": attempt.number, "rank": member.number}
        job_transition(job=attempt.job, to=JobState.PREEMPTING, at=at, actor="scheduler", reason=RANK_ENDED, data=data)
    return tell


def _ending_of(members: Sequence[GangMember]) -> AttemptEnd:
    """Return the attempt's end: that of the process that failed first; ``members`` are in the order of their ends."""
    ends = [_End(member=member, cause=EndCause(member.end_cause)) for member in members]
    failed = [end for end in ends if not end.is_consequence and end.cause is not EndCause.COMPLETED]
    stopped = [end for end in ends if end.cause in STOPPED_BY_US]
    decisive = failed or stopped
    if not decisive and any(end.member.exit_code == EXIT_BROKEN for end in ends):
        detail = "Its processes could not reach each other any more."
        return AttemptEnd(cause=EndCause.SUPERVISOR_LOST, exit_code=EXIT_BROKEN, detail=detail)
    # A lost connection may be reported before the failure that broke it.
    first = min(decisive or ends, key=lambda end: end.member.failure in COMPLAINTS)
    others = len(members) - 1
    rank = f" ({_name_of(first.member, of=others + 1)})" if failed and others else ""
    return AttemptEnd(
        cause=first.cause,
        exit_code=first.member.exit_code,
        exit_signal=first.member.exit_signal,
        detail=f"{first.member.end_detail}{rank}".strip(),
        failure=FailureClass(first.member.failure) if first.member.failure else None,
        line=first.member.failure_line,
        is_ours=first.cause is EndCause.SERVER_LOST and _is_ours(first.member),
    )


def _name_of(member: GangMember, *, of: int) -> str:
    """Return which process of a gang it was, in words."""
    return f"on {member.gpu.server.name}" if member.gang.hosts else f"rank {member.number} of {of}"


def _is_ours(member: GangMember) -> bool:
    """Return whether its server was given up because we could not apply its reports."""
    given_up = Event.objects.filter(server=member.gpu.server_id, kind="server_state", reason=UNAPPLIED)
    return member.ended_at is not None and given_up.filter(at=member.ended_at).exists()


def members_lost(server: Server, ending: AttemptEnd, *, at: datetime) -> set[str]:
    """Record the end of every process on a lost server; return the servers to tell."""
    tell: set[str] = set()
    for members in members_on(server.pk).values():
        for member in members:
            tell |= set(member_end(member, ending, at=at, actor="scheduler"))
    return tell
