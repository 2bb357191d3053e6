"""Applies the reports of many servers in one transaction where they tell of progress only, as nearly all do.

What a report may change beside progress, measured values and its own place in line (an attempt that begins, ends, parks
or is missing, a gang that forms or changes its size, a device that comes or goes) is left to ``apply_report.py``, one
report at a time; so is a report whose batch fails. Both ways write the same rows:
``tests/integration/live/servers/test_batches.py``.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from django.db import transaction

from agents.protocol.signing import AttemptReport
from scheduler.live.gangs.ends import NONE_DONE
from scheduler.live.reports.apply_report import AppliedReport, leases_on, members_on_servers, said_apply
from scheduler.live.reports.intake import Taken
from scheduler.live.reports.progress import ProgressWrites, member_take, progress_take
from scheduler.live.servers.inventory import is_trusted, measures_only, offered_changes
from scheduler.live.steps import POSTPONED
from scheduler.models import Attempt, GangMember, Gpu, Lease, Server
from scheduler.models.server import ServerState
from scheduler.services.failures import is_away
from scheduler.services.many_rows import RowChange, rows_update

log = logging.getLogger(__name__)

GOES_ON = frozenset({"starting", "running", "stopping", "frozen"})


def batch_apply(batch: Sequence[Taken], *, at: datetime) -> dict[str, AppliedReport]:
    """Write those reports that tell of progress only; return what they changed, by server.

    The others are to be applied one by one. Of a batch that fails each half is tried again, so that a report that
    cannot be written costs few others a second try.
    """
    plain = [taken for taken in batch if all(map(_goes_on, taken.report.attempts))]
    if not plain:
        return {}
    try:
        return _apply(plain, at=at)
    except Exception as error:
        if is_away(error):
            raise
        if len(plain) == 1 or isinstance(error, POSTPONED):
            return {}
        log.exception("batch_failed", extra={"reports": len(plain)})
        half = len(plain) // 2
        return batch_apply(plain[:half], at=at) | batch_apply(plain[half:], at=at)


def _goes_on(said: AttemptReport) -> bool:
    return said.phase in GOES_ON and said.measured is None


@dataclass(slots=True)
class _Rows:
    """What the database knows of the servers of a batch.

    Attributes:
        gpus: By server and index.
        leases: Open ones of attempts that are no gang, by server and attempt.
        members: Processes of gangs, by server and id.
        told_at: Generation of the server that told it of a gang's lease, by server and gang.
        peaks: Peak memory of all processes of each gang, by gang and id; as the batch goes on, with what it says.
    """

    servers: list[Server]
    gpus: dict[str, dict[int, Gpu]] = field(default_factory=lambda: defaultdict(dict))
    leases: dict[str, dict[str, Lease]] = field(default_factory=lambda: defaultdict(dict))
    members: dict[str, dict[str, GangMember]] = field(default_factory=lambda: defaultdict(dict))
    told_at: dict[tuple[str, str], int] = field(default_factory=dict)
    peaks: dict[str, dict[str, int | None]] = field(default_factory=lambda: defaultdict(dict))


@dataclass(slots=True)
class _Writes:
    """Columns to write together."""

    of_servers: list[RowChange] = field(default_factory=list)
    of_gpus: list[RowChange] = field(default_factory=list)
    progress: ProgressWrites = field(default_factory=ProgressWrites)

    def write(self) -> None:
        """Write them, the tables in the order in which every transaction locks them."""
        rows_update(Server, self.of_servers)
        rows_update(Gpu, self.of_gpus)
        self.progress.write()


@transaction.atomic
def _apply(batch: Sequence[Taken], *, at: datetime) -> dict[str, AppliedReport]:
    by_server = {taken.server_id: taken for taken in batch}
    found, writes = _read(by_server), _Writes()
    applied: dict[str, AppliedReport] = {}
    for server in found.servers:
        taken = by_server[server.pk]
        try:
            one = _plain_apply(server, taken, found, writes, at=at)
        except Exception:
            log.exception("report_not_plain", extra={"server": server.pk})  # by itself it shows which attempt it is
            continue
        if one is not None:
            applied[server.pk] = one
    writes.write()
    return applied


def _read(server_ids: Mapping[str, Taken]) -> _Rows:
    """Read and lock servers and jobs. It waits for no other transaction: what another one holds is left out."""
    free = Server.objects.select_for_update(skip_locked=True).filter(pk__in=server_ids)
    rows = _Rows(servers=list(free.order_by("number")))
    pks = [server.pk for server in rows.servers]
    for gpu in Gpu.objects.filter(server__in=pks):
        rows.gpus[gpu.server_id][gpu.index] = gpu
    for lease in leases_on(pks).select_for_update(skip_locked=True, of=("attempt__job",)):
        rows.leases[lease.server_id][lease.attempt_id] = lease
    if GangMember.objects.filter(gpu__server__in=pks, ended_at=None).exists():
        _read_gangs(rows, pks)
    return rows


def _read_gangs(rows: _Rows, server_ids: Sequence[str]) -> None:
    server_of = {gpu.pk: server_id for server_id, own in rows.gpus.items() for gpu in own.values()}
    free = members_on_servers(server_ids).select_for_update(skip_locked=True, of=("self", "gang__attempt__job"))
    for member in free:
        rows.members[server_of[member.gpu_id]][member.pk] = member
    gangs = {member.gang_id for own in rows.members.values() for member in own.values()}
    held = Lease.objects.filter(server__in=server_ids, closed_at=None, attempt__in=gangs)
    for server_id, gang_id, generation in held.values_list("server_id", "attempt_id", "generation"):
        rows.told_at[server_id, gang_id] = generation
    everywhere = GangMember.objects.filter(gang__in=gangs, ended_at=None)
    for gang_id, pk, peak_bytes in everywhere.values_list("gang_id", "pk", "peak_memory_bytes"):
        rows.peaks[gang_id][pk] = peak_bytes


def _plain_apply(server: Server, taken: Taken, found: _Rows, writes: _Writes, *, at: datetime) -> AppliedReport | None:
    """Collect what one report changes; None where it tells of more than progress."""
    leases, members = found.leases[server.pk], found.members[server.pk]
    measures = measures_only(found.gpus[server.pk], taken.report.devices, at=at)
    if measures is None or not _is_plain(server, taken, found):
        return None
    applied = AppliedReport(is_behind=taken.stamp.generation < server.generation)
    applied.job_of = {attempt_id: lease.attempt.job_id for attempt_id, lease in leases.items()}
    applied.job_of |= {pk: member.gang.attempt.job_id for pk, member in members.items()}
    for said in taken.report.attempts:
        if said.attempt_id in members:
            _member_goes_on(members[said.attempt_id], said, found, applied, at=at)
        else:
            said_apply(server, leases[said.attempt_id], said, applied, at=at)
    columns = {
        "report_epoch": taken.stamp.epoch,
        "report_sequence": taken.stamp.sequence,
        "last_report_at": at,
        "acked_generation": max(server.acked_generation, taken.stamp.generation),
    }
    writes.of_servers.append((server.pk, columns))
    writes.of_gpus += measures
    writes.progress.add(applied.progress)
    return applied


def _member_goes_on(
    member: GangMember, said: AttemptReport, found: _Rows, applied: AppliedReport, *, at: datetime
) -> None:
    """Collect what one process of a gang says: of itself, and where it leads, of the job."""
    if said.unusable:
        applied.unusable[said.attempt_id] = said.unusable
    member_take(member, said, applied.progress)
    peaks = found.peaks[member.gang_id]
    peaks[member.pk] = member.peak_memory_bytes
    if member.pk == member.gang_id:
        known = [peak_bytes for peak_bytes in peaks.values() if peak_bytes is not None]
        of_gang = replace(said, peak_memory_bytes=sum(known) if known else None)
        progress_take(member.gang.attempt, of_gang, applied.progress, refused=applied.refused, at=at)


def _is_plain(server: Server, taken: Taken, found: _Rows) -> bool:
    """Return whether a report is the next of its server, offers what that did before, and is of attempts that go on."""
    stamp, report = taken.stamp, taken.report
    leases, members = found.leases[server.pk], found.members[server.pk]
    named = {said.attempt_id for said in report.attempts}
    return (
        stamp.epoch == taken.epoch
        and (server.report_epoch, server.report_sequence) < (stamp.epoch, stamp.sequence)
        and stamp.generation <= server.generation
        and (stamp.generation < server.generation or server.state in (ServerState.UP, ServerState.DRAINING))
        and server.claimed_size is None
        and is_trusted(server, report)
        and not offered_changes(server, report)
        and len(named) == len(report.attempts)
        and named <= leases.keys() | members.keys()
        and all(lease.generation > stamp.generation for pk, lease in leases.items() if pk not in named)
        and all(
            found.told_at.get((server.pk, member.gang_id), stamp.generation) > stamp.generation
            for pk, member in members.items()
            if pk not in named
        )
        and all(
            _member_only_goes_on(members[said.attempt_id], said)
            if said.attempt_id in members
            else _has_begun(leases[said.attempt_id].attempt) or said.phase == "starting"
            for said in report.attempts
        )
    )


def _has_begun(attempt: Attempt) -> bool:
    return attempt.started_at is not None


def _member_only_goes_on(member: GangMember, said: AttemptReport) -> bool:
    """Return whether a process of a gang neither begins nor, as its leader, tells of a new membership."""
    gang = member.gang
    has_begun = _has_begun(gang.attempt) and member.started_at is not None
    done_version = NONE_DONE if gang.done_version is None else gang.done_version
    leads_on = member.pk == member.gang_id and said.gang_version is not None and said.gang_version > done_version
    return (has_begun or said.phase == "starting") and not leads_on
