"""Doors to a small world of our own: a clock that we move, a broker in a list, an agent that follows a script.

They implement the same protocols as the real ones, so the code under test cannot tell.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from heapq import heappop, heappush
from itertools import count
from typing import Any

from agents.protocol.signing import (
    AttemptReport,
    AttemptWanted,
    DesiredState,
    DeviceReport,
    ServerReport,
    Stamp,
    seal,
    unseal,
)
from agents.telemetry import Probe
from scheduler.models import Server
from scheduler.ports import Ports, ulid_text
from tests.support.live.environments import FakeEnvironments

START = datetime(2026, 3, 7, 14, 32, tzinfo=UTC)
GIB = 2**30


class ManualClock:
    """Time that passes only when told; the wall may jump, the monotonic clock never does."""

    def __init__(self, start: datetime = START) -> None:
        self._wall = start
        self._mono_s = 1_000.0
        self._later: list[tuple[float, int, Callable[[], None]]] = []
        self._number = count()

    def now(self) -> datetime:
        """Return the wall clock."""
        return self._wall

    def mono_s(self) -> float:
        """Return the monotonic clock, seconds."""
        return self._mono_s

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Run ``call`` when ``advance`` passes that moment."""
        heappush(self._later, (self._mono_s + delay_s, next(self._number), call))

    def advance(self, seconds: float) -> None:
        """Let time pass and run what falls due, in order."""
        until_s = self._mono_s + seconds
        while self._later and self._later[0][0] <= until_s:
            due_s, _, call = heappop(self._later)
            self._pass(due_s - self._mono_s)
            call()
        self._pass(until_s - self._mono_s)

    def _pass(self, seconds: float) -> None:
        self._mono_s += seconds
        self._wall += timedelta(seconds=seconds)

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back; durations do not notice."""
        self._wall += timedelta(seconds=seconds)


class SequentialIds:
    """ULIDs that only rise, the same in every run."""

    def __init__(self) -> None:
        self._number = count(1)

    def ulid(self, at: datetime) -> str:
        """Return the next id."""
        return ulid_text(max(0, int(at.timestamp() * 1000)), next(self._number))


class MemoryTransport:
    """A broker in two dictionaries. ``is_down`` makes it refuse."""

    def __init__(self) -> None:
        self.desired: dict[str, list[str]] = {}
        self.reports: dict[str, list[str]] = {}
        self.touched: list[str] = []
        self.is_down = False

    def _reach(self) -> None:
        if self.is_down:
            raise ConnectionError("broker is down")

    def send_desired(self, messages: Mapping[str, str]) -> None:
        """Put messages on the queues of servers."""
        self._reach()
        for server_id, message in messages.items():
            self.desired.setdefault(server_id, []).append(message)

    def send_report(self, server_id: str, message: str) -> None:
        """Put a message on a server's list."""
        self._reach()
        self.reports.setdefault(server_id, []).append(message)

    def receive_reports(self, server_ids: Sequence[str], *, timeout_s: float) -> list[tuple[str, str]]:
        """Return all that waits."""
        self._reach()
        return [(server_id, text) for server_id in server_ids for text in self.reports.pop(server_id, [])]

    def receive_desired(self, server_id: str) -> list[str]:
        """Return what waits for one server."""
        self._reach()
        return self.desired.pop(server_id, [])

    def take_touched(self) -> list[str]:
        """Return what other processes touched."""
        touched, self.touched = self.touched, []
        return touched


class MemoryBell:
    """Remembers what it was told. Rings no more often than the real one: once until the round begins."""

    def __init__(self) -> None:
        self.triggers: list[str] = []
        self.touched: set[str] = set()

    def request_round(self, trigger: str) -> None:
        """Remember the wish."""
        if not self.triggers:
            self.triggers.append(trigger)

    def round_begins(self) -> None:
        """Forget the wishes."""
        self.triggers.clear()

    def touch(self, names: Sequence[str]) -> None:
        """Remember the changes."""
        self.touched.update(names)


@dataclass(frozen=True, slots=True, kw_only=True)
class SentFrame:
    """One live frame."""

    group: str
    kind: str
    data: Mapping[str, Any]


class RecordingFrames:
    """Keeps every frame."""

    def __init__(self) -> None:
        self.sent: list[SentFrame] = []
        self.groups: set[str] | None = None  # that are watched; None: all

    def watched(self) -> set[str] | None:
        """Return the groups that a test says are watched."""
        return self.groups

    def send(self, group: str, kind: str, data: Mapping[str, Any]) -> None:
        """Keep one frame."""
        self.sent.append(SentFrame(group=group, kind=kind, data=dict(data)))


def memory_ports() -> tuple[Ports, ManualClock, MemoryTransport, RecordingFrames]:
    """Return a bundle of fakes and its parts."""
    clock, transport, frames = ManualClock(), MemoryTransport(), RecordingFrames()
    return Ports(clock=clock, transport=transport, ids=SequentialIds(), frames=frames), clock, transport, frames


@dataclass(slots=True)
class FakeAttempt:
    """One attempt as the agent sees it."""

    wanted: AttemptWanted
    phase: str = "starting"
    generation: int = 0
    run_s: float = 0.0
    step: int | None = None
    steps_per_s: float = 1.0
    peak_memory_bytes: int = GIB
    checkpoint_step: int | None = None
    cause: str = ""
    exit_code: int | None = None
    detail: str = ""
    leaving_s: float = 0.0  # since it was asked off its slot
    extra: dict[str, Any] = field(default_factory=dict)  # further columns of AttemptReport
    said: AttemptReport | None = None  # by the job itself, in place of its step, rate, memory and checkpoint


class FakeAgent:
    """An agent that speaks the real protocol and runs nothing: attempts start at once, and end as the test says.

    Its devices are CPU slots, or those of a probe.
    """

    def __init__(
        self,
        server: Server,
        transport: MemoryTransport,
        clock: ManualClock,
        *,
        slots: int = 2,
        probe: Probe | None = None,
    ) -> None:
        self.server_id, self.name = server.pk, server.name
        self._key = bytes.fromhex(server.key_hex)
        self._transport, self._clock = transport, clock
        self.slots, self.num_cpus, self.memory_bytes = slots, 2 * slots, 8 * slots * GIB
        self._probe = probe
        self.address = ""
        self.environments: FakeEnvironments | None = None  # as of an agent without uv
        self.stamp = Stamp(epoch=0, generation=0, sequence=0)
        self.sequence = 0
        self.attempts: dict[str, FakeAttempt] = {}
        self.broken: set[int] = set()
        self.stops_at_once = True
        self.parks_after_s = 0.0  # how long who is asked off a slot takes, as on a busy machine
        self.launches = True
        self.refused = 0

    def read(self) -> None:
        """Act on the desired states that have arrived."""
        for message in self._transport.receive_desired(self.server_id):
            envelope = unseal(
                key=self._key,
                direction="desired",
                server=self.server_id,
                message=message,
                now_s=self._clock.now().timestamp(),
            )
            if envelope.stamp <= self.stamp:
                self.refused += 1
                continue
            self.stamp = envelope.stamp
            desired = DesiredState.parse(envelope.body)
            self.sequence = max(self.sequence, desired.acknowledged_sequence)
            self._apply(desired)

    def _apply(self, desired: DesiredState) -> None:
        if self.environments is not None:
            self.environments.align(desired.environments)
        named = {wanted.attempt_id: wanted for wanted in desired.attempts}
        self.attempts = {pk: attempt for pk, attempt in self.attempts.items() if pk in named}
        for pk, wanted in named.items():
            if pk not in self.attempts and not self.launches:
                continue
            attempt = self.attempts.setdefault(pk, FakeAttempt(wanted=wanted))
            attempt.wanted, attempt.generation = wanted, self.stamp.generation
            if wanted.wanted == "run" and attempt.phase == "parked":
                attempt.phase = "running"
            elif wanted.wanted == "park" and attempt.phase == "running" and self.stops_at_once:
                self._park(attempt, asked_for_s=0.0)
            elif wanted.wanted not in ("run", "park") and attempt.phase != "ended":
                attempt.phase = "stopping"
                if self.stops_at_once:
                    self._stop(attempt)

    def _park(self, attempt: FakeAttempt, *, asked_for_s: float) -> None:
        attempt.leaving_s += asked_for_s
        if attempt.leaving_s >= self.parks_after_s:
            attempt.phase, attempt.leaving_s = "parked", 0.0

    def _stop(self, attempt: FakeAttempt) -> None:
        if attempt.wanted.wanted in ("preempt", "suspend") and attempt.step is not None:
            attempt.checkpoint_step = attempt.step
        ends = {"preempt": "preempted", "suspend": "suspended", "cancel": "cancelled"}
        attempt.phase, attempt.cause = "ended", ends[attempt.wanted.wanted]

    def forget(self) -> None:
        """Lose all that it keeps on disk, and all that runs; the wall clock is set back."""
        self.stamp, self.sequence, self.attempts = Stamp(epoch=0, generation=0, sequence=0), 0, {}

    def work(self, seconds: float) -> None:
        """Let everything that runs run."""
        for attempt in self.attempts.values():
            if attempt.phase == "starting":
                attempt.phase = "running"
                resumed = attempt.wanted.resume_name
                attempt.step = int(resumed.split("-")[1].removesuffix(".pt")) if resumed else 0
            elif attempt.phase == "running":
                attempt.run_s += seconds
                attempt.step = (attempt.step or 0) + int(seconds * attempt.steps_per_s)
                if attempt.wanted.wanted == "park" and self.stops_at_once:
                    self._park(attempt, asked_for_s=seconds)

    def end(self, job_id: str, *, cause: str, exit_code: int | None = None, detail: str = "") -> None:
        """Let the attempt of a job end."""
        attempt = self.attempt_of(job_id)
        attempt.phase, attempt.cause, attempt.exit_code, attempt.detail = "ended", cause, exit_code, detail

    def checkpoint(self, job_id: str) -> None:
        """Let a job write a checkpoint at its present step."""
        attempt = self.attempt_of(job_id)
        attempt.checkpoint_step = attempt.step

    def attempt_of(self, job_id: str) -> FakeAttempt:
        """Return the attempt of a job; it must run here."""
        return next(attempt for attempt in self.attempts.values() if attempt.wanted.job_id == job_id)

    def report(self, **stamp_changes: int) -> str:
        """Return the next report, sealed; ``stamp_changes`` lets a test lie about the stamp."""
        self.sequence += 1
        stamp = {"epoch": self.stamp.epoch, "generation": self.stamp.generation, "sequence": self.sequence}
        body = ServerReport(
            agent_version="1",
            boot_id="boot",
            device_kind=self._probe.device_kind if self._probe else "cpu_slot",
            isolation="none",
            num_cpus=self.num_cpus,
            memory_bytes=self.memory_bytes,
            cpu_frac=0.5,
            used_memory_bytes=GIB,
            address=self.address,
            devices=self._probe.sample({}) if self._probe else tuple(self._device(at) for at in range(self.slots)),
            attempts=tuple(_attempt_report(pk, attempt) for pk, attempt in sorted(self.attempts.items())),
            environments=None if self.environments is None else tuple(self.environments.kept.values()),
            python="" if self.environments is None else "3.11.7",
        )
        return self.seal(Stamp(**{**stamp, **stamp_changes}), body.to_json())

    def seal(self, stamp: Stamp, body: dict[str, Any]) -> str:
        """Return a signed report with any content."""
        now_s = self._clock.now().timestamp()
        return seal(key=self._key, direction="report", server=self.server_id, stamp=stamp, now_s=now_s, body=body)

    def send(self) -> None:
        """Report; without a broker the report is lost."""
        try:
            self._transport.send_report(self.server_id, self.report())
        except ConnectionError:
            return

    def _device(self, index: int) -> DeviceReport:
        healthy = index not in self.broken
        return DeviceReport(
            index=index,
            uuid=f"cpu-slot-{index}",
            model="CPU slot",
            memory_bytes=0,
            healthy=healthy,
            health_reason="" if healthy else "fell off the bus",
            utilization_frac=0.5,
        )


def _attempt_report(pk: str, attempt: FakeAttempt) -> AttemptReport:
    if attempt.said is not None:
        own = {"phase": attempt.phase, "generation": attempt.generation, "run_s": attempt.run_s, "pid": 4711}
        return replace(attempt.said, attempt_id=pk, **own)  # type: ignore[arg-type]  # tests may lie
    is_saved = attempt.checkpoint_step is not None
    return AttemptReport(
        attempt_id=pk,
        phase=attempt.phase,  # type: ignore[arg-type]  # tests may lie
        generation=attempt.generation,
        pid=None if attempt.phase == "starting" else 4711,
        run_s=attempt.run_s,
        end_cause=attempt.cause,
        end_detail=attempt.detail,
        exit_code=attempt.exit_code,
        step=attempt.step,
        steps_per_s=attempt.steps_per_s if attempt.step is not None else None,
        peak_memory_bytes=attempt.peak_memory_bytes if attempt.step is not None else None,
        checkpoint_name=f"step-{attempt.checkpoint_step:06d}.pt" if is_saved else "",
        checkpoint_step=attempt.checkpoint_step,
        **attempt.extra,
    )
