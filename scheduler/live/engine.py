"""The engine between rounds: applies reports, renews leases, gives up silent servers, sends frames and samples.

A server's silence is measured up to the moment at which the engine last began to listen, since every report sent before
that has been taken. So a pause of the machine, the database or this process never makes a server look silent.

No thread and no sleep here: ``worker.py`` runs it, tests and ``tests/faults`` drive it on a virtual clock.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import partial

from django.conf import settings
from django.db import OperationalError

from agents.protocol.environments import EnvironmentReport
from scheduler.core.model.plan import WaitReason
from scheduler.live.environments.reported import environments_take
from scheduler.live.environments.wanted import environments_step
from scheduler.live.observed.early_stop import EVERY_S, early_check
from scheduler.live.observed.fairness import Fairness
from scheduler.live.observed.idle import Idle
from scheduler.live.observed.searches import searches_step
from scheduler.live.observed.smoke import smoke_check
from scheduler.live.reports.apply_report import AppliedReport, report_apply, unusable_tell
from scheduler.live.reports.batches import batch_apply
from scheduler.live.reports.frames import Frames
from scheduler.live.reports.intake import Taken, refusals_record, reports_open
from scheduler.live.reports.telemetry import Telemetry, job_values
from scheduler.live.rounds.barred import barred_read
from scheduler.live.rounds.desired import desired_send
from scheduler.live.servers.lost import lost_after_s, lost_check, unconfirmed_check
from scheduler.live.servers.suspects import suspects_check
from scheduler.live.servers.watch import ServerWatch
from scheduler.live.steps import NOT_DUE, POSTPONED, Steps
from scheduler.models import Cluster, Job, Round, Server
from scheduler.notify import request_round, touch_cluster
from scheduler.ports import Ports
from scheduler.services.failures import is_away

log = logging.getLogger(__name__)

CHECK_EVERY_S = 1.0
ASK_EVERY_S = 0.25  # where changes come quickly there are 50 turns a second
REPORTS_A_BATCH = 100  # of one transaction: rounds and requests get in between


class Engine:
    """The work between two rounds. One thread calls ``turn``."""

    def __init__(self, ports: Ports) -> None:
        self.ports = ports
        self.watch = ServerWatch()
        self.telemetry = Telemetry()
        self.frames = Frames(ports.frames)
        self.idle = Idle()
        self.fairness = Fairness()
        self.steps = Steps()
        self._environments: dict[str, tuple[EnvironmentReport, ...]] = {}  # as last taken from each server
        self._asked_s = self._checked_s = self._renew_at_s = self._settled_s = -1e18
        self._listened_s = ports.clock.mono_s()  # up to which all reports have been taken

    def server_ids(self) -> list[str]:
        """Return the servers whose reports are to be fetched."""
        return list(Server.objects.order_by("number").values_list("pk", flat=True))

    def turn(self, server_ids: Sequence[str], *, timeout_s: float) -> None:
        """Take reports for up to ``timeout_s`` seconds, then do what is due, even if the broker is away."""
        listened_s = self.ports.clock.mono_s()
        try:
            messages = self.ports.transport.receive_reports(server_ids, timeout_s=timeout_s)
            self.frames.touch(self.ports.transport.take_touched())
            if messages:
                self.steps.run("reports", partial(self.take, messages), at=self.ports.clock.now())
        finally:
            self.tick(listened_s=listened_s)

    def take(self, messages: Iterable[tuple[str, str]]) -> None:
        """Apply what has arrived from the agents."""
        at, now_s = self.ports.clock.now(), self.ports.clock.mono_s()
        intake = reports_open(messages, at=at)
        # Servers that are heard get renewals anyway. No lease is extended here: nothing new is acknowledged.
        silent = intake.old - self._present(now_s=now_s)
        tell = {server_id for server_id in silent if self.watch.may_resend(server_id, now_s=now_s)}
        for first in range(0, len(intake.taken), REPORTS_A_BATCH):
            batch = intake.taken[first : first + REPORTS_A_BATCH]
            self.steps.run("leases", self._renew, at=at)  # many reports delay none
            together = batch_apply(batch, at=self.ports.clock.now())
            for taken in batch:
                tell |= self._apply(taken, together.get(taken.server_id), intake.refuse, at=at, now_s=now_s)
        refusals_record(intake.refused, watch=self.watch, at=at, now_s=now_s)
        self.steps.run("orders", lambda: self._tell(tell), at=at)

    def _apply(
        self,
        taken: Taken,
        applied: AppliedReport | None,
        refuse: Callable[[str, str], None],
        *,
        at: datetime,
        now_s: float,
    ) -> set[str]:
        """Take in one report, which ``applied`` says was written with others; return the servers to tell."""
        try:
            if applied is None:
                self.steps.run("leases", self._renew, at=at)
                applied = report_apply(taken, at=self.ports.clock.now())
            self.steps.works("writing reports", at=at)
            return set() if applied.is_stale else self._note(taken, applied, refuse, now_s=now_s)
        except Exception as error:
            if is_away(error):
                raise
            self.watch.unapplied[taken.server_id] = now_s
            if isinstance(error, POSTPONED):
                # A user was faster. The next report says the same and meets the job as it is then.
                log.info("report_postponed", extra={"server": taken.server_id, "error": str(error)})
                if isinstance(error, OperationalError):  # of all servers in a row: the database takes none
                    self.steps.fails("writing reports", error, at=at)
            else:
                log.exception("report_inconsistent", extra={"server": taken.server_id})
                refuse(taken.server_id, "inconsistent")
            return set()

    def _note(
        self, taken: Taken, applied: AppliedReport, refuse: Callable[[str, str], None], *, now_s: float
    ) -> set[str]:
        """Remember what one applied report says; return the servers to tell."""
        at = self.ports.clock.now()
        server_id = taken.server_id
        self.watch.heard[server_id] = now_s
        self.watch.sequences[server_id] = (taken.stamp.epoch, taken.stamp.sequence)
        self.watch.note_missing(applied.missing, of=set(applied.job_of), now_s=now_s)
        for why in applied.refused.elements():
            refuse(server_id, why)
        job_of = applied.job_of
        self.telemetry.take(server_id, taken.report, job_of, at=at)
        said = taken.report.environments
        if said is not None and self._environments.get(server_id) != said and not applied.is_behind:
            self.steps.run("environments told", partial(self._take_environments, server_id, said, at=at), at=at)
        own = [attempt for attempt in taken.report.attempts if attempt.attempt_id in job_of]
        self.idle.take(own, job_of, now_s=now_s)
        self.frames.measure({job_of[attempt.attempt_id]: job_values(attempt) for attempt in own}, now_s=now_s)
        touch_cluster()
        if (applied.is_behind or applied.missing) and self.watch.may_resend(server_id, now_s=now_s):
            applied.tell.add(server_id)
        for attempt_id, odd in applied.unusable.items():
            if self.watch.may_tell_rejection(attempt_id, now_s=now_s):
                self.steps.run("odd reports", partial(unusable_tell, attempt_id, odd, at=at), at=at)
        return applied.tell

    def _take_environments(self, server_id: str, said: tuple[EnvironmentReport, ...], *, at: datetime) -> None:
        environments_take(server_id, said, at=at)
        self._environments[server_id] = said  # only now: what could not be written is taken from the next report

    def tick(self, *, listened_s: float | None = None) -> None:
        """Do what is due: checks each second, renewals and samples by the monotonic clock, rounds by the wall clock.

        Args:
            listened_s: Monotonic time up to which all reports have been taken; None: now.
        """
        at, now_s = self.ports.clock.now(), self.ports.clock.mono_s()
        self._listened_s = now_s if listened_s is None else listened_s
        run = partial(self.steps.run, at=at)
        run("leases", self._renew)
        if now_s - self._asked_s >= ASK_EVERY_S:
            self._asked_s = now_s
            run("rounds due", partial(_rounds_ask, at=at))
        if now_s - self._checked_s >= CHECK_EVERY_S:
            self._checked_s = now_s
            run("lost servers", partial(lost_check, self.watch, self._tell, at=at, now_s=self._listened_s))
            run(
                "unconfirmed launches", lambda: self._tell(unconfirmed_check(self.watch, at=at, now_s=self._listened_s))
            )
            run("smoke runs", lambda: self._tell(smoke_check(at=at)))
            run("environments", lambda: self._tell(environments_step(barred=barred_read, at=at)))
            run("suspect servers", partial(suspects_check, at=at))
            run("searches", partial(searches_step, at=at, ids=self.ports.ids))
        if now_s - self._settled_s >= EVERY_S:
            self._settled_s = now_s
            run("early stops", partial(early_check, self._tell, at=at))
        run("idle jobs", partial(self.idle.check, at=at, now_s=now_s))
        run("fairness", partial(self.fairness.check, at=at, now_s=now_s))
        run("samples", partial(self._flush, at=at, now_s=now_s))
        self.steps.raise_away()

    def _flush(self, *, at: datetime, now_s: float) -> object:
        if not self.telemetry.flush(at=at, now_s=now_s):
            return NOT_DUE
        touch_cluster()
        return None

    def _renew(self) -> object:
        """Renew the leases of the servers heard lately, each quarter of their life.

        Where that takes as long, an eighth is left for reports in between; without it, no server could join.
        """
        began_s = self.ports.clock.mono_s()
        if began_s < self._renew_at_s:
            return NOT_DUE
        try:
            self._tell(self._present(now_s=self._listened_s))
        finally:
            now_s = self.ports.clock.mono_s()
            self._renew_at_s = max(began_s + settings.LEASE_TTL_S / 4, now_s + settings.LEASE_TTL_S / 8)
        return None

    def _present(self, *, now_s: float) -> set[str]:
        """Return the servers heard lately; a silent server gets no renewal, so its leases run out."""
        return {server_id for server_id, heard in self.watch.heard.items() if now_s - heard < lost_after_s()}

    def _tell(self, server_ids: set[str]) -> None:
        if not server_ids:
            return
        desired_send(server_ids, transport=self.ports.transport, at=self.ports.clock.now())
        self.watch.sent |= dict.fromkeys(server_ids, self.ports.clock.mono_s())


def _rounds_ask(*, at: datetime) -> None:
    """Ask for a round where introspection or the end of a job's pause wants one and none has begun since.

    A round that began later knew of it. Where its plan was refused, the next one would be, too: the beat asks for that.
    """
    latest = Round.objects.order_by("-number").values_list("started_at", flat=True).first()
    since = latest or datetime.fromtimestamp(0, tz=UTC)
    if Cluster.objects.filter(pk=1, again_at__lte=at, again_at__gt=since, paused=False).exists():
        request_round("introspection")
    # In this order, and not by state, both databases read the index of retries; else all queued jobs.
    due = Job.objects.filter(
        wait_reason=WaitReason.BACKOFF, wanted="run", retry_after__lte=at, retry_after__gt=since
    ).order_by("retry_after")
    if due.values_list("pk", flat=True).first() is not None:
        request_round("backoff")
