"""Applies one agent report to the database, in one transaction per server.

Decides what is believed: only reports about an open attempt with a lease on that very server, only forward through its
phases, only rising steps. ``attempts/close.py`` decides what becomes of a job whose attempt ended. Held right by
``tests/faults``.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Any

from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.db.models.functions import Greatest

from agents.protocol.signing import AttemptReport
from scheduler.core.model.lifecycle import EndCause
from scheduler.core.operations.failures import FailureClass
from scheduler.live.attempts.close import attempt_close
from scheduler.live.attempts.late import late_ends_take
from scheduler.live.attempts.retry import AttemptEnd
from scheduler.live.gangs.ends import gang_done, member_end
from scheduler.live.gangs.membership import attempts_of, is_whole, members_on, peak_of
from scheduler.live.reports.intake import Taken
from scheduler.live.reports.progress import ProgressWrites, attempt_started, member_take, progress_take
from scheduler.live.rounds.parking import attempt_parked
from scheduler.live.servers.inventory import inventory_update, server_is_back
from scheduler.live.steps import POSTPONED
from scheduler.models import Attempt, GangMember, Job, Lease, Server
from scheduler.services.failures import described, is_away
from scheduler.services.jobs.profiles import measurement_end
from scheduler.services.jobs.state import job_event

log = logging.getLogger(__name__)

DEFECT = "defect: "  # prefix of the reason where an error in Clusterweb kept a report from being applied

# Columns of attempts that a report changes or that decide what it changes: a fifth of all.
_LOOKED_AT = (
    *("attempt_id", "server_id", "generation"),
    *(
        f"attempt__{name}"
        for name in (
            *("job_id", "number", "kind", "state", "wanted", "created_at", "started_at", "resume_step"),
            *("first_step", "last_step", "log_bytes", "peak_memory_bytes"),
        )
    ),
    *(
        f"attempt__job__{name}"
        for name in (
            *("state", "wanted", "event_count", "first_started_at", "step", "total_steps", "loss", "steps_per_s"),
            *(
                "checkpoint_attempt_id",
                "checkpoint_name",
                "checkpoint_step",
                "checkpoint_at",
                "progress_at",
                "directory_bytes",
            ),
        )
    ),
)
CAUSES = frozenset(cause.value for cause in EndCause)
SAID = frozenset(failure.value for failure in FailureClass) - {FailureClass.PREEMPTED}


@dataclass(slots=True)
class AppliedReport:
    """What one report changed.

    Attributes:
        is_stale: A newer report was taken first; nothing was changed.
        is_behind: The agent works on an older desired state than the present one.
        tell: Servers whose desired state changed by it.
        missing: Open attempts that the report lacks.
        job_of: Job of every attempt that was open on the server, by attempt id.
        refused: Reasons of what was refused, with counts.
        unusable: Attempts of which only the phase was taken, with the reason.
        progress: Columns not written yet.
    """

    is_stale: bool = False
    is_behind: bool = False
    tell: set[str] = field(default_factory=set)
    missing: set[str] = field(default_factory=set)
    job_of: dict[str, str] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    unusable: dict[str, str] = field(default_factory=dict)
    progress: ProgressWrites = field(default_factory=ProgressWrites)


def report_apply(taken: Taken, *, at: datetime) -> AppliedReport:
    """Write one report. Raises JobChanged when a job changed meanwhile; the next report repeats it.

    What a job says, and a defect of ours, never make its server silent: where an attempt's numbers cannot be used, the
    others are taken, and of this one what the agent itself knows; any other part that fails is left out and counted.
    """
    try:
        return _apply(taken, at=at)
    except Exception as error:
        if is_away(error) or isinstance(error, POSTPONED):
            raise
        log.exception("report_unusable", extra={"server": taken.server_id})
        return _apply(taken, at=at, is_one_by_one=True)


@transaction.atomic
def _apply(taken: Taken, *, at: datetime, is_one_by_one: bool = False) -> AppliedReport:
    applied = AppliedReport()
    is_present_epoch = taken.stamp.epoch == taken.epoch
    if not _claim(taken, is_present_epoch=is_present_epoch, at=at):
        applied.is_stale = True
        return applied
    server = Server.objects.get(pk=taken.server_id)
    part = _Part(server, applied, is_apart=is_one_by_one)
    part.do(lambda: inventory_update(server, taken.report, at=at))
    applied.is_behind = not is_present_epoch or taken.stamp.generation < server.generation
    if not applied.is_behind:
        part.do(lambda: server_is_back(server, at=at))
    if is_present_epoch:
        _attempts_apply(server, taken, applied, part, at=at)
    return applied


@dataclass(frozen=True, slots=True)
class _Part:
    """Does the parts of a report; ``is_apart``: one that fails changes nothing and stops no other."""

    server: Server
    applied: AppliedReport
    is_apart: bool

    def do(self, act: Callable[[], object]) -> None:
        """Do one part."""
        if not self.is_apart:
            act()
            return
        try:
            with transaction.atomic():
                act()
        except Exception as error:
            if is_away(error) or isinstance(error, POSTPONED):
                raise
            log.exception("report_part_unusable", extra={"server": self.server.pk})
            self.applied.refused["inconsistent"] += 1


def unusable_tell(attempt_id: str, why: str, *, at: datetime) -> None:
    """Tell a job's owner which of its numbers cannot be used, or that a defect of ours makes all of them unusable."""
    job = Job.objects.filter(attempts__pk=attempts_of([attempt_id])[attempt_id]).first()
    if job is not None:
        reason = "defect" if why.startswith(DEFECT) else "numbers"
        data = {"error": why.removeprefix(DEFECT)}
        job_event(job=job, kind="report_unusable", at=at, actor="scheduler", reason=reason, data=data)


def _claim(taken: Taken, *, is_present_epoch: bool, at: datetime) -> bool:
    """Take the report's place in the order of its server's reports; False when a newer one was taken."""
    stamp = taken.stamp
    columns: dict[str, Any] = {
        "report_epoch": stamp.epoch,
        "report_sequence": stamp.sequence,
        "last_report_at": at,
    }
    if is_present_epoch:
        columns["acked_generation"] = Greatest(F("acked_generation"), stamp.generation)
    newer = Q(report_epoch__lt=stamp.epoch) | Q(report_epoch=stamp.epoch, report_sequence__lt=stamp.sequence)
    return Server.objects.filter(newer, pk=taken.server_id, generation__gte=stamp.generation).update(**columns) == 1


def _attempts_apply(server: Server, taken: Taken, applied: AppliedReport, part: _Part, *, at: datetime) -> None:
    """Apply what a report says of attempts."""
    leases = {lease.attempt_id: lease for lease in leases_on([server.pk])}
    applied.job_of = {attempt_id: lease.attempt.job_id for attempt_id, lease in leases.items()}
    members = _members(server)
    applied.job_of |= {member.pk: member.gang.attempt.job_id for member in members.values()}
    strangers = []
    for said in taken.report.attempts:
        row = members.pop(said.attempt_id, None) or leases.pop(said.attempt_id, None)
        if row is None:
            strangers.append(said)
        elif part.is_apart:
            _usable_apply(server, said, applied, at=at)
        else:
            said_apply(server, row, said, applied, at=at)
    applied.progress.write()
    part.do(lambda: _gangs_parked(server, taken, at=at))
    applied.refused["foreign_attempt"] += _foreign(server, [said.attempt_id for said in strangers])
    part.do(lambda: late_ends_take(server, strangers, at=at))
    for _, lease in sorted(leases.items()):
        if lease.generation <= taken.stamp.generation:
            part.do(partial(_attempt_is_missing, server, lease.attempt, applied, at=at))
    held = Lease.objects.filter(server=server, closed_at=None).values_list("attempt_id", "generation")
    generations = dict(held) if members else {}
    for member in members.values():
        if generations.get(member.gang_id, taken.stamp.generation) <= taken.stamp.generation:
            part.do(partial(_member_is_missing, server, member, applied, at=at))
    applied.refused = +applied.refused


def leases_on(server_ids: Iterable[str]) -> QuerySet[Lease]:
    """Return the open leases of attempts that are no gang, with the columns of attempt and job that reports need."""
    found = Lease.objects.filter(server__in=server_ids, closed_at=None, attempt__gang=None)
    return found.select_related("attempt__job").only(*_LOOKED_AT)


def said_apply(
    server: Server, row: Lease | GangMember, said: AttemptReport, applied: AppliedReport, *, at: datetime
) -> None:
    """Apply what a report says of one attempt or gang process, except the columns that ``applied.progress`` keeps."""
    if said.unusable:
        applied.unusable[said.attempt_id] = said.unusable
    if isinstance(row, GangMember):
        _member_apply(server, row, said, applied, at=at)
        return
    _attempt_apply(server, row.attempt, said, applied, at=at)
    if said.phase == "parked":
        attempt_parked(attempt=row.attempt, server=server, generation=said.generation, at=at)


def _usable_apply(server: Server, said: AttemptReport, applied: AppliedReport, *, at: datetime) -> None:
    """Apply all that is said of one attempt; if that fails, only what its agent knows; if that fails too, nothing."""
    for words in (said, said.bare()):
        part = AppliedReport(unusable=applied.unusable)
        try:
            with transaction.atomic():
                # Read again, because a try that failed has changed the rows in memory.
                alone = leases_on([server.pk]).filter(attempt=said.attempt_id).first()
                row = alone or _members(server, said.attempt_id).get(said.attempt_id)
                if row is not None:
                    said_apply(server, row, words, part, at=at)
                    part.progress.write()
        except Exception as error:
            if is_away(error) or isinstance(error, POSTPONED):
                raise
            log.exception("attempt_unusable", extra={"attempt": said.attempt_id})
            applied.unusable[said.attempt_id] = DEFECT + described(error)
        else:
            applied.tell |= part.tell
            applied.refused += part.refused
            return


def members_on_servers(server_ids: Iterable[str]) -> QuerySet[GangMember]:
    """Return the gang processes that belong on servers, with what a report goes by of attempt and job."""
    here = GangMember.objects.filter(gpu__server__in=server_ids, ended_at=None, gang__attempt__ended_at=None)
    return here.select_related("gang__attempt__job").defer("gang__attempt__job__spec").order_by("pk")


def _members(server: Server, *only: str) -> dict[str, GangMember]:
    """Return the gang processes that belong on a server, by the id that its agent knows; ``only``: of those ids.

    Processes of one gang share its row object, so that a change made for one is seen by the next.
    """
    here = GangMember.objects.filter(gpu__server=server, ended_at=None)
    rows = members_on_servers([server.pk])
    if only:
        here, rows = here.filter(pk__in=only), rows.filter(pk__in=only)
    if not here.exists():  # nearly always so, at a tenth of the cost of the query below
        return {}
    found = {member.pk: member for member in rows}
    gangs = {member.gang_id: member.gang for member in found.values()}
    for member in found.values():
        member.gang = gangs[member.gang_id]
    return found


def _member_apply(
    server: Server, member: GangMember, said: AttemptReport, applied: AppliedReport, *, at: datetime
) -> None:
    """Apply the report of one gang process: its job runs once all do, and the leader reports the progress."""
    actor, gang, attempt = f"agent {server.name}", member.gang, member.gang.attempt
    if said.phase == "ended" and said.end_cause not in CAUSES:
        applied.refused["unknown_cause"] += 1
        return
    has_begun = said.phase != "starting" and (said.phase != "ended" or said.run_s > 0)
    if has_begun and member.started_at is None:
        member.started_at = at
        applied.progress.of_members.append((member.pk, {"started_at": at}))
    member_take(member, said, applied.progress)
    applied.progress.write()  # what follows reads it
    if has_begun and attempt.started_at is None and is_whole(gang):
        attempt_started(attempt, said, at=at, actor=actor)
    if member.pk == gang.attempt_id:
        said_of_gang = replace(said, peak_memory_bytes=peak_of(gang.pk))
        progress_take(attempt, said_of_gang, applied.progress, refused=applied.refused, at=at)
        applied.progress.write()
        gang_done(gang, said, at=at)
    if said.phase == "ended":
        applied.tell |= set(member_end(member, _ending(said), at=at, actor=actor))
        gang.attempt = Attempt.objects.select_related("job").get(pk=attempt.pk)  # the end may have stopped the others


def _gangs_parked(server: Server, taken: Taken, *, at: datetime) -> None:
    """Park the gangs of which every process on this server reports to be off its GPU."""
    parked = {said.attempt_id: said.generation for said in taken.report.attempts if said.phase == "parked"}
    for members in members_on(server.pk).values() if parked else ():
        if all(member.pk in parked for member in members):
            generation = min(parked[member.pk] for member in members)
            attempt_parked(attempt=members[0].gang.attempt, server=server, generation=generation, at=at)


def _member_is_missing(server: Server, member: GangMember, applied: AppliedReport, *, at: datetime) -> None:
    """Handle a gang process that the report lacks, as ``_attempt_is_missing`` does."""
    if member.gang.attempt.wanted in ("run", "park"):
        applied.missing.add(member.pk)
        return
    ending = AttemptEnd(cause=EndCause.CANCELLED, detail=f"The agent of {server.name} does not know the process.")
    applied.tell |= set(member_end(member, ending, at=at, actor=f"agent {server.name}"))


def _foreign(server: Server, attempt_ids: list[str]) -> int:
    """Return how many of the attempts never were on this server; the others have ended and are still reported."""
    if not attempt_ids:
        return 0
    known = Lease.objects.filter(server=server, attempt_id__in=attempt_ids).values("attempt_id").distinct().count()
    known += GangMember.objects.filter(gpu__server=server, pk__in=attempt_ids).exclude(number=0).count()
    return len(set(attempt_ids)) - known


def _attempt_is_missing(server: Server, attempt: Attempt, applied: AppliedReport, *, at: datetime) -> None:
    """Handle an attempt that the report lacks although its agent works on this generation.

    If it was asked to stop, it is over: the agent ignores older messages, so it never runs again. Otherwise it gets
    time to appear.
    """
    if attempt.wanted in ("run", "park"):
        applied.missing.add(attempt.pk)
        return
    ending = AttemptEnd(cause=EndCause.CANCELLED, detail=f"The agent of {server.name} does not know the attempt.")
    applied.tell |= set(attempt_close(attempt_id=attempt.pk, ending=ending, at=at, actor=f"agent {server.name}"))


def _attempt_apply(
    server: Server, attempt: Attempt, said: AttemptReport, applied: AppliedReport, *, at: datetime
) -> None:
    actor = f"agent {server.name}"
    if said.phase == "ended" and said.end_cause not in CAUSES:
        applied.refused["unknown_cause"] += 1
        return
    if said.phase != "starting" and (said.phase != "ended" or said.run_s > 0):
        attempt_started(attempt, said, at=at, actor=actor)
    progress_take(attempt, said, applied.progress, refused=applied.refused, at=at)
    if said.phase in ("parked", "ended") or said.measured is not None:
        applied.progress.write()  # what follows reads it
    if said.measured is not None:
        measurement_end(attempt=attempt, told=said.measured, peak_memory_bytes=said.peak_memory_bytes or 0, at=at)
    if said.phase == "ended":
        applied.tell |= set(attempt_close(attempt_id=attempt.id, ending=_ending(said), at=at, actor=actor))


def _ending(said: AttemptReport) -> AttemptEnd:
    return AttemptEnd(
        cause=EndCause(said.end_cause),
        exit_code=said.exit_code,
        exit_signal=said.exit_signal,
        detail=said.end_detail,
        failure=FailureClass(said.failure) if said.failure in SAID else None,
        line=said.failure_line if said.failure in SAID else "",
    )
