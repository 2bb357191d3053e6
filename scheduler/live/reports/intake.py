"""Decides which report messages are taken: authentic, fresh, complete, from a known server.

A server can lie only about itself. Refused messages are counted on its row and recorded in one event a minute. Nothing
here raises and nothing is requested again, because the next report holds the whole state.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from django.db.models import F

from agents.protocol.signing import Envelope, ProtocolError, ServerReport, Stamp, unseal
from scheduler.broker import TOO_LARGE
from scheduler.live.servers.watch import ServerWatch
from scheduler.models import Event, Server
from scheduler.models.server import ServerState
from scheduler.services.cluster.settings import cluster_row

log = logging.getLogger(__name__)

DAY_MS = 86_400_000
CENTURY_MS = 36_525 * DAY_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """One report to apply.

    Attributes:
        epoch: The present epoch; the report's own may be older.
    """

    server_id: str
    epoch: int
    stamp: Stamp
    report: ServerReport


@dataclass(slots=True)
class Intake:
    """The result of reading one batch of messages.

    Attributes:
        taken: The newest report of each server.
        refused: Reasons with counts, by server id.
        old: Servers with authentic reports only, none newer than the one taken last.
    """

    taken: list[Taken] = field(default_factory=list)
    refused: dict[str, Counter[str]] = field(default_factory=dict)
    old: set[str] = field(default_factory=set)

    def refuse(self, server_id: str, why: str) -> None:
        """Count one refused message."""
        self.refused.setdefault(server_id, Counter())[why] += 1


def reports_open(messages: Iterable[tuple[str, str]], *, at: datetime) -> Intake:
    """Return the newest authentic report of each server; older ones of the batch add nothing."""
    by_server: dict[str, list[str]] = {}
    for server_id, message in messages:
        by_server.setdefault(server_id, []).append(message)
    intake = Intake()
    epoch = cluster_row().epoch
    for server in Server.objects.filter(pk__in=by_server).order_by("number"):
        try:
            newest = _newest(server, by_server[server.pk], epoch=epoch, at=at, intake=intake)
        except Exception:  # no query in it: a defect of ours, or a row that no code of ours writes
            log.exception("report_unreadable", extra={"server": server.pk})
            intake.refuse(server.pk, "inconsistent")
            continue
        if newest is not None:
            intake.taken.append(newest)
    return intake


def _newest(server: Server, messages: Sequence[str], *, epoch: int, at: datetime, intake: Intake) -> Taken | None:
    envelopes: list[Envelope] = []
    key = bytes.fromhex(server.key_hex)
    for message in messages:
        if message == TOO_LARGE:
            intake.refuse(server.pk, "too_large")
            continue
        try:
            envelope = unseal(key=key, direction="report", server=server.pk, message=message, now_s=at.timestamp())
        except ProtocolError as error:
            intake.refuse(server.pk, type(error).__name__.lower())
            continue
        stamp = envelope.stamp
        if stamp.epoch > epoch or (stamp.epoch == epoch and stamp.generation > server.generation):
            intake.refuse(server.pk, "from_the_future")
        elif stamp.sequence > _highest_sequence(server, at):
            intake.refuse(server.pk, "sequence_jumped")
        elif (stamp.epoch, stamp.sequence) > (server.report_epoch, server.report_sequence):
            envelopes.append(envelope)
        else:
            # Doubled, late or replayed: changes nothing. Or the agent lost its state, and its reports count again once
            # it has been told the newest sequence.
            intake.old.add(server.pk)
    for envelope in sorted(envelopes, key=lambda item: (item.stamp.epoch, item.stamp.sequence), reverse=True):
        try:
            report = ServerReport.parse(envelope.body)
            intake.old.discard(server.pk)
            return Taken(server_id=server.pk, epoch=epoch, stamp=envelope.stamp, report=report)
        except ProtocolError as error:
            intake.refuse(server.pk, type(error).__name__.lower())
    return None


def _highest_sequence(server: Server, at: datetime) -> int:
    """Return the highest sequence that is believed of a server now.

    Agents begin at the milliseconds of their clock and count on from there, so that a day more than the time of day is
    ample. A server that is not heard is believed more: its agent may have started while its clock was wrong. Even then
    there is always a higher sequence for the next agent to go on with.
    """
    if server.state in (ServerState.JOINING, ServerState.LOST):
        return int(at.timestamp() * 1000) + CENTURY_MS
    return max(int(at.timestamp() * 1000), server.report_sequence) + DAY_MS


def refusals_record(refused: Mapping[str, Counter[str]], *, watch: ServerWatch, at: datetime, now_s: float) -> None:
    """Count refused messages on the servers' rows; record one event a minute for each server."""
    for server_id, why in sorted(refused.items()):
        Server.objects.filter(pk=server_id).update(rejected_reports=F("rejected_reports") + why.total())
        if watch.may_tell_rejection(server_id, now_s=now_s):
            Event.objects.create(
                at=at,
                kind="report_rejected",
                actor="scheduler",
                server_id=server_id,
                reason=why.most_common(1)[0][0],
                data=dict(sorted(why.items())),
            )
            log.warning("report_rejected", extra={"server": server_id, "why": dict(why)})
