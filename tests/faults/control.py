"""The control plane of a run: one or two schedulers on one database, each of which may crash, stall and come back."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random

from django.db import InterfaceError, OperationalError, connection

from scheduler.live.engine import Engine
from scheduler.live.rounds.run_round import round_run
from scheduler.ports import Ports
from tests.faults.network import Network
from tests.faults.statements import Crash, Statements
from tests.faults.virtual import HostClock, Trace, VirtualTime
from tests.support.live.ports import RecordingFrames, SequentialIds

STEP_S = 3.0
BEAT_S = 15.0
WAKE_S = 2.0


@contextmanager
def committed() -> Iterator[None]:
    """Do after the block what it left for after the commit; a crash takes that with it."""
    start = len(connection.run_on_commit)
    try:
        yield
        done = start
        while done < len(connection.run_on_commit):
            entry = connection.run_on_commit[done]
            done += 1
            entry[1]()
    finally:
        del connection.run_on_commit[start:]


class SharedBell:
    """Early rounds: asked for once until one begins, taken by whichever scheduler is there."""

    def __init__(self, control: "Control") -> None:
        self._control = control
        self._until_s = -1.0

    def request_round(self, trigger: str) -> None:
        """Ask for an early round."""
        control = self._control
        if control.network.is_down or control.time.now_s < self._until_s:
            return
        self._until_s = control.time.now_s + WAKE_S
        control.time.after(0.02 + 0.1 * control.rng.random(), lambda: control.round(trigger))

    def round_begins(self) -> None:
        """Let the next change ask again."""
        self._until_s = -1.0

    def touch(self, names: Sequence[str]) -> None:
        """Nobody looks."""


class CrashingNetwork:
    """A scheduler's end of the network: it may crash between its commit and what it sends."""

    def __init__(self, scheduler: "SchedulerHost", network: Network) -> None:
        self._scheduler, self._network = scheduler, network

    def send_desired(self, messages: Mapping[str, str]) -> None:
        """Send, or crash before any of the messages."""
        control = self._scheduler.control
        for server_id, message in messages.items():
            if control.crash_frac and control.rng.random() < control.crash_frac:
                control.trace.fault("crash_before_send", self._scheduler.name)
                raise Crash
            self._network.send_desired({server_id: message})

    def send_report(self, server_id: str, message: str) -> None:
        """Schedulers send no reports."""
        raise AssertionError(server_id)

    def receive_reports(self, server_ids: list[str], *, timeout_s: float) -> list[tuple[str, str]]:
        """Return what waits."""
        return self._network.receive_reports(server_ids, timeout_s=timeout_s)

    def take_touched(self) -> list[str]:
        """Return nothing."""
        return []


class SchedulerHost:
    """One scheduler process."""

    def __init__(self, name: str, control: "Control") -> None:
        self.name, self.control = name, control
        self.clock = HostClock(control.time)
        self.engine: Engine | None = None
        self.paused_until_s = 0.0
        self._life = 0
        self.ports = Ports(
            clock=self.clock,
            transport=CrashingNetwork(self, control.network),  # type: ignore[arg-type]  # lists are sequences
            ids=control.ids,
            frames=RecordingFrames(),
        )

    @property
    def is_up(self) -> bool:
        """Return whether it does anything now."""
        return self.engine is not None and self.control.time.now_s >= self.paused_until_s

    def start(self) -> None:
        """Start the process with an empty memory, unless it runs."""
        if self.engine is not None:
            return
        self._life += 1
        self.engine = Engine(self.ports)
        self.control.trace.add(self.name, "starts")
        self._again(self._life)

    def stop(self) -> None:
        """Take the process away."""
        self.engine = None
        self._life += 1

    def _again(self, life: int) -> None:
        if self._life != life:
            return
        if self.is_up:
            self.take()
            self._guarded(self._tick)
        self.control.time.after(STEP_S, lambda: self._again(life))

    def take(self) -> None:
        """Take the reports that wait."""
        self._guarded(self._take)

    def _take(self) -> None:
        assert self.engine is not None
        messages = self.ports.transport.receive_reports(self.engine.server_ids(), timeout_s=0)
        if messages:
            self.engine.take(messages)

    def _tick(self) -> None:
        assert self.engine is not None
        self.engine.tick()

    def round(self, trigger: str) -> None:
        """Run a round here."""
        self.control.bell.round_begins()
        before, self.control.at_work = self.control.at_work, self
        self._guarded(lambda: self._round(trigger))
        self.control.at_work = before

    def _round(self, trigger: str) -> None:
        round_ = round_run(self.ports, trigger)
        if round_ is not None:
            launched, preempted = round_.num_launched, round_.num_preempted
            self.control.trace.add(self.name, "round", round_.number, trigger, launched, preempted, round_.error)

    def _guarded(self, step: Callable[[], None]) -> None:
        """Run one step as the worker's thread does; a crash ends the process."""
        if not self.is_up:
            return
        try:
            with self.control.statements.watched(), committed():
                step()
        except (ConnectionError, OperationalError, InterfaceError):
            pass
        except Crash:
            self.stop()
            self.control.time.after(1.0 + 10.0 * self.control.rng.random(), self.start)
        self.control.check()


class Control:
    """All schedulers, their beat and their bell."""

    def __init__(self, *, time: VirtualTime, network: Network, rng: Random, trace: Trace) -> None:
        self.time, self.network, self.rng, self.trace = time, network, rng, trace
        self.ids = SequentialIds()
        self.statements = Statements(time=time, rng=rng, trace=trace)
        self.crash_frac = 0.0
        self.check: Callable[[], None] = lambda: None
        self.bell = SharedBell(self)
        self.first = SchedulerHost("scheduler-1", self)
        self.second = SchedulerHost("scheduler-2", self)
        self.at_work: SchedulerHost | None = None  # whose round it is
        # Called between a plan and its application, where the world may move on.
        self.on_planned: Callable[[], None] = lambda: None
        network.on_report = self._report_arrived

    def start(self) -> None:
        """Start the first scheduler and the beat."""
        self.first.start()
        self._beat()

    def heal(self) -> None:
        """One scheduler, with a good clock."""
        self.crash_frac = 0.0
        self.statements.calm()
        self.second.stop()
        self.first.paused_until_s = 0.0
        self.first.clock.wall_offset_s = 0.0
        self.first.start()

    def _beat(self) -> None:
        if not self.network.is_down:
            self.round("beat")
        self.time.after(BEAT_S, self._beat)

    def _report_arrived(self) -> None:
        up = [host for host in (self.first, self.second) if host.is_up]
        if up and not self.network.is_down:
            self.rng.choice(up).take()

    def round(self, trigger: str) -> None:
        """Run a round on one of the schedulers that are up."""
        up = [host for host in (self.first, self.second) if host.is_up]
        if up:
            self.rng.choice(up).round(trigger)

    def other(self) -> SchedulerHost | None:
        """Return the scheduler that is up and not in the middle of a round."""
        return next((host for host in (self.first, self.second) if host.is_up and host is not self.at_work), None)
