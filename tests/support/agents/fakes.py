"""A server without an operating system: files, processes, supervisors and jobs in memory, on a clock moved by hand.

``AgentCore`` and ``Supervision`` are the real ones; only the ports are not. Everything here is deterministic.
"""

import errno
import signal
from collections import deque
from collections.abc import Callable, Hashable
from datetime import UTC, datetime, timedelta

from agents.core import events as agent_events
from agents.core import supervision_events as ev
from agents.core.agent_core import AgentCore
from agents.core.records import CONTROL_FILE, LAUNCH_FILE, REQUEST_FILE, STATE_FILE, Control, Launch, encode
from agents.core.reporter import ServerProfile
from agents.core.supervision import Supervision
from agents.executor import Executor
from agents.protocol.desired_state import AttemptWanted, DesiredState
from agents.protocol.ports import ProcessIdentity, SpawnRequest
from agents.protocol.server_report import AttemptReport, DeviceReport, ServerReport
from agents.protocol.signing import Stamp, seal, unseal
from tests.support.agents.fake_job import Job

KEY = b"k" * 32
SERVER_ID = "s0123456789a"
STEP_S = 0.1


class HandClock:
    """Wall and monotonic clock that move only when told; the wall may jump."""

    def __init__(self) -> None:
        self.passed_s = 1000.0
        self.wall = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        """Return the wall clock."""
        return self.wall

    def mono_s(self) -> float:
        """Return the monotonic clock."""
        return self.passed_s

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Not used by agents."""
        raise NotImplementedError

    def advance(self, seconds: float) -> None:
        """Let time go by."""
        self.passed_s += seconds
        self.wall += timedelta(seconds=seconds)


class Crash(BaseException):
    """The agent is killed in the middle of what it does."""


class MemoryFiles:
    """Files port in memory.

    Attributes:
        is_full: Every write fails.
        crash_after: The agent is killed after so many more writes and spawns; None for never.
    """

    def __init__(self) -> None:
        self.content: dict[tuple[str, str], bytes] = {}
        self.own: bytes | None = None
        self.is_full = False
        self.crash_after: int | None = None

    def _room(self) -> None:
        self.count()
        if self.is_full:
            raise OSError(errno.ENOSPC, "No space left on device")

    def count(self) -> None:
        """Count one step of the agent, and kill it when its time has come."""
        if self.crash_after is not None:
            self.crash_after -= 1
            if self.crash_after < 0:
                self.crash_after = None
                raise Crash

    def read(self, attempt_id: str, name: str) -> bytes | None:
        """Return the content or None."""
        return self.content.get((attempt_id, name))

    def write(self, attempt_id: str, name: str, content: bytes) -> None:
        """Replace a file."""
        self._room()
        self.content[attempt_id, name] = content

    def create(self, attempt_id: str, name: str, content: bytes) -> bool:
        """Make a file unless it is there."""
        self._room()
        if (attempt_id, name) in self.content:
            return False
        self.content[attempt_id, name] = content
        return True

    def attempts(self) -> list[str]:
        """Return all ids."""
        return sorted({attempt_id for attempt_id, _ in self.content})

    def read_own(self) -> bytes | None:
        """Return the agent's memory."""
        return self.own

    def write_own(self, content: bytes) -> None:
        """Replace the agent's memory."""
        self._room()
        self.own = content


class FakeSupervisor:
    """Drives the real ``Supervision`` over memory."""

    def __init__(self, host: "FakeHost", attempt_id: str, identity: ProcessIdentity) -> None:
        self._host = host
        self.attempt_id = attempt_id
        self.identity = identity
        self.is_done = False
        self.job: Job | None = None
        self._control_seen: bytes | None = None
        self._measured_at_s = 0.0
        content = host.files.read(attempt_id, LAUNCH_FILE)
        assert content is not None
        self.launch = Launch.parse(content)
        self.core = Supervision(launch=self.launch, supervisor=identity, clock=host.clock)

    def begin(self) -> None:
        """Claim the attempt and start its job, unless another supervisor was first."""
        self._look_at_control()
        state = (self.attempt_id, STATE_FILE)
        if not self._host.files.is_full and state not in self._host.files.content:
            self._host.files.content[state] = encode(self.core.state)
            self.handle(ev.Begin())
        else:
            self.is_done = True

    def step(self, seconds: float) -> None:
        """Let the job and the supervisor run on."""
        self._look_at_control()
        if self.job is not None:
            for line in self.job.step(seconds):
                self.handle(ev.JobReported(line=line))
            if self.job.exit is not None:
                self.handle(ev.ChildExited(exit=self.job.exit))
                self.handle(ev.NoneLeft())
        if self.job is not None and self._host.clock.mono_s() - self._measured_at_s >= 1:
            self._measured_at_s = self._host.clock.mono_s()
            self.handle(
                ev.UsageSampled(cpu_frac=0.5, disk_bytes=0, is_disk_full=False, log_bytes=0, dropped_log_bytes=0)
            )
        self.handle(ev.Tick())

    def _look_at_control(self) -> None:
        content = self._host.files.read(self.attempt_id, CONTROL_FILE)
        control = Control.parse(content) if content != self._control_seen else None
        self._control_seen = content
        if control is not None:
            self.handle(ev.ControlChanged(control=control))

    def handle(self, event: ev.Event) -> None:
        """Bring in one event and do what follows."""
        for command in self.core.handle(event):
            match command:
                case ev.StartChild():
                    self.job = self._host.jobs.setdefault(self.attempt_id, Job())
                    self._host.starts.append(self.attempt_id)
                    self.handle(ev.ChildStarted(identity=self._host.processes.new()))
                case ev.WriteRequest():
                    self._host.files.content[self.attempt_id, REQUEST_FILE] = command.request.encode()
                    if self.job is not None:
                        self.job.ask(command.request)
                case ev.Signal():
                    if self.job is not None:
                        self.job.take(command.number)
                case ev.Journal():
                    self._host.journal.append((self._host.clock.mono_s(), command.event, self.attempt_id))
                case ev.WriteState():
                    if not self._host.files.is_full:
                        self._host.files.content[self.attempt_id, STATE_FILE] = encode(self.core.state)
                case ev.ClearTree():
                    self.handle(ev.TreeGone())
                case ev.Finish():
                    self.is_done = True


class FakeProcesses:
    """Processes port: identities that live until they are killed or end."""

    def __init__(self, host: "FakeHost") -> None:
        self._host = host
        self._last_pid = 100
        self.cannot_spawn = False
        self.supervisors: dict[ProcessIdentity, FakeSupervisor] = {}

    def new(self) -> ProcessIdentity:
        """Return a new identity."""
        self._last_pid += 1
        return ProcessIdentity(boot_id="boot", pid=self._last_pid, start_ticks=self._last_pid * 10)

    def spawn(self, request: SpawnRequest) -> ProcessIdentity:
        """Start a supervisor; it begins at the next step."""
        self._host.files.count()
        if self.cannot_spawn:
            raise OSError(errno.EAGAIN, "Resource temporarily unavailable")
        identity = self.new()
        self.supervisors[identity] = FakeSupervisor(self._host, request.attempt_id, identity)
        self._host.spawns.append(request.attempt_id)
        self._host.unborn.append(identity)
        return identity

    def signal(self, identity: ProcessIdentity, number: int, *, group: bool = False) -> bool:
        """Reach a supervisor; only KILL does anything to it."""
        if identity not in self.supervisors:
            return False
        if number == signal.SIGKILL:
            self.kill(identity)
        return True

    def kill(self, identity: ProcessIdentity) -> None:
        """Kill a supervisor, and its job with it."""
        supervisor = self.supervisors.pop(identity)
        if supervisor.job is not None and supervisor.job.exit is None:
            supervisor.job.take(signal.SIGKILL)

    def alive(self, identity: ProcessIdentity) -> bool:
        """Return whether the supervisor runs."""
        return identity in self.supervisors

    def end_all(self, attempt_id: str) -> int:
        """Nothing survives its supervisor here."""
        return 0


class FakeHost:
    """One server in memory, with the scheduler's side of the conversation.

    Attributes:
        jobs: How the job of an attempt behaves; set before it is launched.
        spawns, starts: Attempts in the order their supervisors, and their jobs, were started.
        reports: All that the agent sent, opened.
        sent_at_s: When, by sequence.
        journal: (time, event, attempt).
        is_disk_slow: What takes long waits, and gets done at one piece in half a second.
    """

    def __init__(self, *, lease_ttl_s: float = 20.0) -> None:
        self.clock = HandClock()
        self.files = MemoryFiles()
        self.processes = FakeProcesses(self)
        self.lease_ttl_s = lease_ttl_s
        self.jobs: dict[str, Job] = {}
        self.unborn: list[ProcessIdentity] = []
        self.spawns: list[str] = []
        self.starts: list[str] = []
        self.reports: list[tuple[Stamp, ServerReport]] = []
        self.sent_at_s: dict[int, float] = {}
        self.journal: list[tuple[float, str, str]] = []
        self.orders: dict[str, AttemptWanted] = {}
        self.epoch = 1
        self.generation = 0
        self.sequence = 0
        self.is_disk_slow = False
        self._asked: deque[tuple[Callable[[], agent_events.Event | None], Hashable]] = deque()
        self.agent = self.new_agent()

    # The agent

    def new_agent(self) -> Executor:
        """Return an agent with nothing in its memory but what is on disk."""
        profile = ServerProfile(
            server_id=SERVER_ID,
            key=KEY,
            agent_version="1",
            boot_id="boot",
            device_kind="cpu_slot",
            isolation="none",
            num_cpus=4,
            memory_bytes=1 << 30,
            cpu_ids=(0, 1),
            journal_dir="/journal",
        )
        return Executor(
            core=AgentCore(profile, self.clock),
            server_id=SERVER_ID,
            transport=self,
            processes=self.processes,
            files=self.files,
            supervisor=lambda attempt_id: SpawnRequest(attempt_id=attempt_id, argv=(), env={}, cwd=""),
            later=self._later,
        )

    def _later(self, carry_out: Callable[[], agent_events.Event | None], *, once: Hashable) -> None:
        if once is None or all(once != other for _, other in self._asked):
            self._asked.append((carry_out, once))

    def tell(self, event: agent_events.Event) -> None:
        """Bring an event in, and all that follows unless the disk is slow."""
        self.agent.dispatch(event)
        self._work(most=0 if self.is_disk_slow else 1000)

    def look(self) -> None:
        """Let the agent look at its supervisors, and do all that follows unless the disk is slow."""
        self.agent.look()
        self._work(most=0 if self.is_disk_slow else 1000)

    def _work(self, *, most: int) -> None:
        while self._asked and most > 0:
            most -= 1
            carry_out, _ = self._asked.popleft()
            outcome = carry_out()
            if outcome is not None:
                self.agent.dispatch(outcome)

    def start(self) -> None:
        """Start the agent, as after a crash."""
        self._asked.clear()
        self.agent = self.new_agent()
        device = DeviceReport(index=0, uuid="slot-0", model="CPU slot", memory_bytes=1, healthy=True)
        self.tell(agent_events.Sampled(devices=(device,), cpu_frac=0.0, used_memory_bytes=0))
        self.agent.start()
        self.tell(agent_events.Tick())

    def run(self, seconds: float, *, with_agent: bool = True) -> None:
        """Let time go by for agent and jobs; ``with_agent`` is False while the agent is dead."""
        for step in range(round(seconds / STEP_S)):
            self.clock.advance(STEP_S)
            for identity in self.unborn:
                if identity in self.processes.supervisors:
                    self.processes.supervisors[identity].begin()
            self.unborn.clear()
            for identity, supervisor in list(self.processes.supervisors.items()):
                supervisor.step(STEP_S)
                if supervisor.is_done:
                    self.processes.supervisors.pop(identity, None)
            if with_agent:
                self.look()
                self._work(most=0 if round(self.clock.mono_s() / STEP_S) % 5 else 1)
                if step % 10 == 9:
                    self.tell(agent_events.Tick())

    # The scheduler

    def send_report(self, server_id: str, message: str) -> None:
        """Take a report in."""
        now_s = self.clock.now().timestamp()
        envelope = unseal(key=KEY, direction="report", server=server_id, message=message, now_s=now_s)
        self.reports.append((envelope.stamp, ServerReport.parse(envelope.body)))
        self.sent_at_s[envelope.stamp.sequence] = self.clock.mono_s()

    @property
    def newest_report(self) -> int:
        """Return the sequence of the report that the scheduler took last; 0 before the first."""
        newest = max(((stamp.epoch, stamp.sequence) for stamp, _ in self.reports), default=(0, 0))
        return newest[1]

    def message(self, *, acknowledged: int | None = None, now_s: float | None = None) -> str:
        """Return the present desired state, sealed, with the next sequence."""
        self.sequence += 1
        newest = self.newest_report
        desired = DesiredState(
            lease_ttl_s=self.lease_ttl_s,
            acknowledged_sequence=newest if acknowledged is None else acknowledged,
            attempts=tuple(self.orders.values()),
        )
        return seal(
            key=KEY,
            direction="desired",
            server=SERVER_ID,
            stamp=Stamp(epoch=self.epoch, generation=self.generation, sequence=self.sequence),
            now_s=self.clock.now().timestamp() if now_s is None else now_s,
            body=desired.to_json(),
        )

    def want(self, *orders: AttemptWanted) -> str:
        """Make these the wanted attempts, in a new generation; return the message."""
        self.generation += 1
        self.orders = {order.attempt_id: order for order in orders}
        return self.message()

    def deliver(self, message: str) -> None:
        """Hand a message to the agent."""
        self.tell(agent_events.DesiredReceived(message=message))

    def send(self, *orders: AttemptWanted) -> None:
        """Want these and deliver it."""
        self.deliver(self.want(*orders))

    def report(self, order: AttemptWanted) -> AttemptReport | None:
        """Return the newest report of an attempt."""
        return next((one for one in self.reports[-1][1].attempts if one.attempt_id == order.attempt_id), None)

    def phase(self, order: AttemptWanted) -> str:
        """Return the newest reported phase of an attempt; empty when it is not reported."""
        report = self.report(order)
        return report.phase if report is not None else ""
