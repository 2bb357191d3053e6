"""Applies the reports of many servers in one transaction where they tell of progress only, as nearly all do.

What a report may change beside progress, measured values and its own place in line (an attempt that begins, ends, parks
or is missing, a gang, a device that comes or goes) is left to ``apply_report.py``, one report at a time; so is a report
whose batch fails. Both ways write the same rows: ``tests/integration/live/servers/test_batches.py``.
"""

import logging
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction

from agents.protocol.signing import AttemptReport
from scheduler.live.reports.apply_report import AppliedReport, leases_on, said_apply
from scheduler.live.reports.intake import Taken
from scheduler.live.reports.progress import ProgressWrites
from scheduler.live.servers.inventory import is_trusted, measures_only, offered_changes
from scheduler.live.steps import POSTPONED, is_away
from scheduler.models import Attempt, GangMember, Gpu, Lease, Server
from scheduler.models.server import ServerState
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
        leases: Open ones, by server and attempt.
        with_gangs: Servers that run processes of gangs.
    """

    servers: list[Server]
    gpus: dict[str, dict[int, Gpu]] = field(default_factory=lambda: defaultdict(dict))
    leases: dict[str, dict[str, Lease]] = field(default_factory=lambda: defaultdict(dict))
    with_gangs: set[str] = field(default_factory=set)


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
    members = GangMember.objects.filter(gpu__server__in=pks, ended_at=None)
    rows.with_gangs = set(members.values_list("gpu__server_id", flat=True).distinct())
    return rows


def _plain_apply(server: Server, taken: Taken, found: _Rows, writes: _Writes, *, at: datetime) -> AppliedReport | None:
    """Collect what one report changes; None where it tells of more than progress."""
    leases = found.leases[server.pk]
    measures = measures_only(found.gpus[server.pk], taken.report.devices, at=at)
    if measures is None or server.pk in found.with_gangs or not _is_plain(server, taken, leases):
        return None
    applied = AppliedReport(is_behind=taken.stamp.generation < server.generation)
    applied.job_of = {attempt_id: lease.attempt.job_id for attempt_id, lease in leases.items()}
    for said in taken.report.attempts:
        said_apply(server, leases[said.attempt_id], said, applied, at=at)
    columns = {
        "report_epoch": taken.stamp.epoch,
        "report_sequence": taken.stamp.sequence,
        "last_report_at": at,
        "acked_generation": max(server.acked_generation, taken.stamp.generation),
    }
    writes.of_servers.append((server.pk, columns))
    writes.of_gpus += measures
    writes.progress.of_jobs += applied.progress.of_jobs
    writes.progress.of_attempts += applied.progress.of_attempts
    return applied


def _is_plain(server: Server, taken: Taken, leases: Mapping[str, Lease]) -> bool:
    """Return whether a report is the next one of its server, which offers what it did, of attempts that go on there."""
    stamp, report = taken.stamp, taken.report
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
        and named <= leases.keys()
        and all(lease.generation > stamp.generation for pk, lease in leases.items() if pk not in named)
        and all(_has_begun(leases[said.attempt_id].attempt) or said.phase == "starting" for said in report.attempts)
    )


def _has_begun(attempt: Attempt) -> bool:
    return attempt.started_at is not None
