"""One server: its disk, its processes, its agent. Real heart and hands of the agent, simulated world around them."""

import errno
from collections.abc import Callable
from random import Random
from typing import Literal

from agents.core import events as ev
from agents.core.agent_core import AgentCore
from agents.core.reporter import ServerProfile
from agents.executor import NUDGE, Executor
from agents.protocol.ports import ProcessIdentity, SpawnRequest
from agents.protocol.server_report import DeviceReport
from tests.faults.network import Network
from tests.faults.preparing.building import PYTHON, TAG, Builds
from tests.faults.supervising import SimSupervisor
from tests.faults.training import JobMarks, SharedFiles
from tests.faults.virtual import HostClock, Trace, VirtualTime
from tests.faults.witness import Witness

TICK_S = 3.0
LOOK_S = 0.5
GIB = 2**30


class AgentKilled(Exception):
    """The agent's process is gone in the middle of what it did."""


class Machine:
    """A server that can lose its agent, its supervisors, its trainers, its disk space, its power."""

    def __init__(
        self,
        *,
        name: str,
        server_id: str,
        key: bytes,
        slots: int,
        time: VirtualTime,
        network: Network,
        shared: SharedFiles,
        marks: JobMarks,
        witness: Witness,
        trace: Trace,
        rng: Random,
    ) -> None:
        self.name, self.server_id, self.slots = name, server_id, slots
        self.clock = HostClock(time)
        self.witness, self.shared, self.trace, self.rng, self.time = witness, shared, trace, rng, time
        self.marks = marks
        self.boots = 1
        self.is_disk_full = False
        self.killed_handing_frac = 0.0  # of the starts with a secret
        self.device_kind: Literal["gpu", "cpu_slot"] = "cpu_slot"
        self.own: bytes | None = None
        self.builds: Builds | None = None  # of Python environments; None where none are built
        self.supervisors: dict[int, SimSupervisor] = {}
        self._key, self._network = key, network
        self._pids = 100
        self.agent: Executor | None = None
        self._agent_life = 0
        self._paused_until_s = 0.0

    # ------------------------------------------------------------------ agent

    def start_agent(self) -> None:
        """Start the agent's process, unless it runs."""
        if self.agent is not None:
            return
        self._agent_life += 1
        life = self._agent_life
        core = AgentCore(self._profile(), self.clock)
        self.agent = Executor(
            core=core,
            server_id=self.server_id,
            transport=self._network,
            processes=SimProcesses(self),
            files=SimFiles(self),
            supervisor=lambda attempt_id: SpawnRequest(attempt_id=attempt_id, argv=(), env={}, cwd=""),
            environments=self.builds.keeper() if self.builds else None,
        )
        self.trace.add("agent", self.name, "starts")
        self._guarded(self._first)
        self._every(TICK_S, life, self._tick)
        self._every(LOOK_S, life, self._look)

    def _first(self) -> None:
        assert self.agent is not None
        self._sample()
        self.agent.start()

    def kill_agent(self) -> None:
        """Take the agent's process away; what it supervises lives on."""
        self.agent = None
        self._agent_life += 1

    def pause_agent(self, seconds: float) -> None:
        """Let the agent's process stand still."""
        self._paused_until_s = max(self._paused_until_s, self.time.now_s + seconds)

    @property
    def is_paused(self) -> bool:
        """Return whether the agent stands still."""
        return self.time.now_s < self._paused_until_s

    def heal(self) -> None:
        """End what a fault has begun."""
        self._paused_until_s = 0.0
        self.is_disk_full = False
        self.killed_handing_frac = 0.0
        self.clock.wall_offset_s = 0.0
        if self.builds:
            self.builds.is_index_flaky = False
        self.start_agent()

    def _every(self, seconds: float, life: int, call: Callable[[], None]) -> None:
        def again() -> None:
            if self._agent_life != life or self.agent is None:
                return
            if not self.is_paused:
                self._guarded(call)
            self.time.after(seconds, again)

        self.time.after(self.rng.random() * seconds, again)

    def _guarded(self, call: Callable[[], None]) -> None:
        """Like the agent's loop: a step that fails on a full disk costs that step."""
        try:
            call()
        except OSError as error:
            self.trace.add("agent", self.name, "step failed", error.errno)
        except AgentKilled:
            self.kill_agent()
            self.time.after(1.0, self.start_agent)

    def _look(self) -> None:
        assert self.agent is not None
        for message in self._network.take_desired(self.server_id):
            self.agent.dispatch(ev.DesiredReceived(message=message))
        self.agent.look()

    def _tick(self) -> None:
        assert self.agent is not None
        self._sample()
        self.agent.dispatch(ev.Tick())

    def message_arrived(self) -> None:
        """Take in what waits for the agent, if it runs."""
        if self.agent is not None and not self.is_paused:
            self._guarded(self._look)

    def _sample(self) -> None:
        assert self.agent is not None
        devices = tuple(
            DeviceReport(index=i, uuid=f"cpu-slot-{i}", model="CPU slot", memory_bytes=0, healthy=True)
            for i in range(self.slots)
        )
        self.agent.dispatch(ev.Sampled(devices=devices, cpu_frac=None, used_memory_bytes=None))

    def _profile(self) -> ServerProfile:
        return ServerProfile(
            server_id=self.server_id,
            key=self._key,
            agent_version="1",
            boot_id=self.boot_id,
            device_kind=self.device_kind,
            isolation="none",
            num_cpus=2 * self.slots,
            memory_bytes=8 * self.slots * GIB,
            cpu_ids=tuple(range(2 * self.slots)),
            journal_dir=str(self.builds.root) if self.builds else "",
            python=PYTHON if self.builds else "",
            environment_tag=TAG if self.builds else "",
        )

    # ------------------------------------------------------------------ processes and power

    @property
    def boot_id(self) -> str:
        """Return the id of the kernel's present boot."""
        return f"{self.name}-boot-{self.boots}"

    def new_pid(self) -> ProcessIdentity:
        """Return the identity of a process that begins now."""
        self._pids += 1
        return ProcessIdentity(boot_id=self.boot_id, pid=self._pids, start_ticks=int(self.clock.mono_s() * 100))

    def kill_supervisor(self, pid: int) -> None:
        """Take a supervisor away; its trainer dies with it."""
        supervisor = self.supervisors.pop(pid, None)
        if supervisor is not None:
            supervisor.die()

    def power_off(self) -> None:
        """End every process at once. The disk stays."""
        self.kill_agent()
        if self.builds:
            self.builds.power_off()
        for pid in sorted(self.supervisors):
            self.kill_supervisor(pid)

    def power_on(self) -> None:
        """Boot again: another boot id, clocks from the start."""
        self.boots += 1
        self.clock.reboot()
        self.start_agent()

    def write(self, attempt_id: str, name: str, content: bytes) -> None:
        """Write a file of the shared directory. Raises OSError when this machine finds no room."""
        if self.is_disk_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self.shared[attempt_id, name] = content


class SimFiles:
    """The Files port of one machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def read(self, attempt_id: str, name: str) -> bytes | None:
        """Return the content."""
        return self._machine.shared.get((attempt_id, name))

    def write(self, attempt_id: str, name: str, content: bytes) -> None:
        """Replace the file."""
        self._machine.write(attempt_id, name, content)

    def create(self, attempt_id: str, name: str, content: bytes) -> bool:
        """Make the file unless there is one."""
        if (attempt_id, name) in self._machine.shared:
            return False
        self._machine.write(attempt_id, name, content)
        return True

    def attempts(self) -> list[str]:
        """Return the attempts that have a directory."""
        return sorted({attempt_id for attempt_id, _ in self._machine.shared})

    def read_own(self) -> bytes | None:
        """Return what the agent kept."""
        return self._machine.own

    def write_own(self, content: bytes) -> None:
        """Replace what the agent keeps."""
        if self._machine.is_disk_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._machine.own = content


class SimProcesses:
    """The Processes port of one machine."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    def spawn(self, request: SpawnRequest) -> ProcessIdentity:
        """Start a supervisor."""
        machine = self._machine
        identity = machine.new_pid()
        is_killed = bool(request.handed) and machine.rng.random() < machine.killed_handing_frac
        handed = request.handed[: len(request.handed) // 2] if is_killed else request.handed
        supervisor = SimSupervisor(machine=machine, identity=identity, attempt_id=request.attempt_id, handed=handed)
        machine.supervisors[identity.pid] = supervisor
        machine.time.after(0.05 + 0.2 * machine.rng.random(), supervisor.main)
        if is_killed:
            machine.trace.fault("kill_agent_handing", machine.name)
            raise AgentKilled
        return identity

    def signal(self, identity: ProcessIdentity, number: int, *, group: bool = False) -> bool:
        """Nudge a supervisor."""
        supervisor = self._machine.supervisors.get(identity.pid)
        if supervisor is None or supervisor.identity != identity:
            return False
        if number == NUDGE:
            self._machine.time.after(0.01, supervisor.turn)
        return True

    def alive(self, identity: ProcessIdentity) -> bool:
        """Return whether it is still that process."""
        supervisor = self._machine.supervisors.get(identity.pid)
        return supervisor is not None and supervisor.identity == identity

    def end_all(self, attempt_id: str) -> int:
        """Kill what carries the attempt's mark."""
        for pid, supervisor in sorted(self._machine.supervisors.items()):
            if supervisor.attempt_id == attempt_id:
                self._machine.kill_supervisor(pid)
        return 0
