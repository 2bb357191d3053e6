"""A real agent with real supervisors and jobs, and a scheduler that is only a key: for tests of the agent."""

import contextlib
import itertools
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

from agents.config import AgentConfig
from agents.core.records import SupervisorState
from agents.host.cgroup import groups_of_host
from agents.host.identity import TICKS_PER_S, read_stat, send_signal
from agents.host.process import HostProcesses
from agents.loop import AgentLoop
from agents.protocol.desired_state import AttemptWanted, DesiredState
from agents.protocol.environments import EnvironmentReport, EnvironmentWanted
from agents.protocol.ports import ProcessIdentity
from agents.protocol.server_report import AttemptReport, ServerReport
from agents.protocol.signing import Stamp, seal, unseal
from agents.telemetry.cpu import CpuSlots

T = TypeVar("T")

SERVER_ID = "s0123456789a"
KEY = b"k" * 32
_numbers = itertools.count(1)
# Deadlines only end what hangs: on a busy machine all things take this many times as long as on a quiet one.
PATIENCE = 4.0
# Torch takes longer than this to import; Python alone does not.
SOME_IMPORT_TICKS = TICKS_PER_S // 2


def attempt_id() -> str:
    """Return an id of an attempt, or of a job, that no other test of this run uses."""
    return f"01JD{os.getpid():08d}{next(_numbers):014d}"


def wait_for(what: str, condition: Callable[[], T | None], *, within_s: float = 60.0) -> T:
    """Return the first true value of ``condition``; fail with ``what`` if none comes in time, ``PATIENCE`` included."""
    within_s *= PATIENCE
    end_s = time.monotonic() + within_s
    while time.monotonic() < end_s:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"waited {within_s:.0f} s for: {what}")


def script(text: str) -> tuple[str, ...]:
    """Return the command that runs a Python script given as text, without site for a quick start."""
    return (sys.executable, "-S", "-c", text)


def wanted(command: tuple[str, ...], **changes: object) -> AttemptWanted:
    """Return an order to run a command on slot 0, of a job of its own unless one is named."""
    order = AttemptWanted(
        attempt_id=attempt_id(),
        job_id=attempt_id(),
        wanted="run",
        generation=1,
        gpu_indexes=(0,),
        gpu_uuids=(f"cpu-slot-{SERVER_ID}-0",),
        cpu_ids=(0,),
        memory_bytes=512 * 1024**2,
        disk_bytes=1024**3,
        log_bytes=64 * 1024**2,
        command=command,
        env={},
        files={},
        grace_s=5.0,
        max_duration_s=None,
        resume_attempt_id="",
        resume_name="",
    )
    return replace(order, **changes)  # type: ignore[arg-type]  # names and types are the caller's


class MailBox:
    """A transport that keeps what is sent."""

    def __init__(self) -> None:
        self.reports: list[tuple[Stamp, ServerReport]] = []

    def send_report(self, server_id: str, message: str) -> None:
        """Open and keep a report; a broken one fails the test in its next look."""
        envelope = unseal(key=KEY, direction="report", server=server_id, message=message, now_s=time.time())
        self.reports.append((envelope.stamp, ServerReport.parse(envelope.body)))

    @property
    def newest(self) -> tuple[Stamp, ServerReport]:
        """Return the last report."""
        return self.reports[-1]


class AgentServer:
    """One server: its directories, its agent (which may be stopped and started), and what the scheduler would send."""

    def __init__(self, path: Path, *, lease_ttl_s: float = 60.0) -> None:
        self.config = AgentConfig(
            server_id=SERVER_ID,
            server_name="server-under-test",
            key=KEY,
            redis_url="redis://127.0.0.1:1/0",
            shared_dir=path / "shared",
            state_dir=path / "state",
            cpu_slots=2,
            cpu_ids=tuple(sorted(os.sched_getaffinity(0))),
            memory_bytes=4 * 1024**3,
            confines=False,  # jobs of the tests write what they find where the test looks
            own_user=True,
        )
        self.lease_ttl_s = lease_ttl_s
        self.mail = MailBox()
        self.loop: AgentLoop | None = None
        self.generation = 0
        self.sequence = 0
        self.orders: dict[str, AttemptWanted] = {}
        self.ever: set[str] = set()
        self.environments: tuple[EnvironmentWanted, ...] = ()

    def start(self) -> None:
        """Start the agent and wait for its first report."""
        before = len(self.mail.reports)
        probe = CpuSlots.find(self.config)
        self.loop = AgentLoop(self.config, self.mail, probe=probe)
        self.loop.start()
        wait_for("first report", lambda: len(self.mail.reports) > before)

    def stop(self) -> None:
        """Stop the agent; jobs go on."""
        if self.loop is not None:
            self.loop.stop()
            self.loop = None

    def message(self, *, acknowledge: bool = True) -> str:
        """Return the desired state as it is now, sealed, with the next sequence."""
        self.sequence += 1
        desired = DesiredState(
            lease_ttl_s=self.lease_ttl_s,
            acknowledged_sequence=self.mail.newest[0].sequence if acknowledge else 0,
            attempts=tuple(self.orders.values()),
            environments=self.environments,
        )
        return seal(
            key=KEY,
            direction="desired",
            server=SERVER_ID,
            stamp=Stamp(epoch=1, generation=self.generation, sequence=self.sequence),
            now_s=time.time(),
            body=desired.to_json(),
        )

    def send(self, *orders: AttemptWanted) -> None:
        """Make these the wanted attempts, in a new generation, and tell the agent."""
        self.generation += 1
        self.orders = {order.attempt_id: order for order in orders}
        self.ever |= set(self.orders)
        self.renew()

    def want(self, *environments: EnvironmentWanted) -> None:
        """Make these the wanted environments, and tell the agent."""
        self.environments = environments
        self.renew()

    def environment(self, wanted: EnvironmentWanted) -> EnvironmentReport | None:
        """Return the newest report of an environment."""
        reported = self.mail.newest[1].environments or ()
        return next((one for one in reported if one.digest == wanted.digest), None)

    def wait_environment(self, wanted: EnvironmentWanted, *states: str) -> EnvironmentReport:
        """Return the report of an environment once it is in one of the states."""

        def found() -> EnvironmentReport | None:
            report = self.environment(wanted)
            return report if report is not None and report.state in states else None

        return wait_for(f"the environment to be {states}, is {self.environment(wanted)}", found, within_s=60.0)

    def renew(self) -> None:
        """Say the same again, acknowledging the newest report."""
        assert self.loop is not None
        self.loop.receive(self.message())

    def report(self, order: AttemptWanted) -> AttemptReport | None:
        """Return the newest report of an attempt."""
        if not self.mail.reports:
            return None
        return next((one for one in self.mail.newest[1].attempts if one.attempt_id == order.attempt_id), None)

    def wait_phase(self, order: AttemptWanted, *phases: str, within_s: float = 60.0) -> AttemptReport:
        """Return the report of an attempt once it is in one of the phases."""

        def found() -> AttemptReport | None:
            report = self.report(order)
            return report if report is not None and report.phase in phases else None

        return wait_for(f"{order.attempt_id} to be {phases}, is {self.report(order)}", found, within_s=within_s)

    def directory(self, order: AttemptWanted) -> Path:
        """Return the directory of an attempt."""
        return self.config.attempts_dir / order.attempt_id

    def job_dir(self, order: AttemptWanted) -> Path:
        """Return the directory of an attempt's job."""
        return self.config.shared_dir / "jobs" / order.job_id / "dir"

    def log(self, order: AttemptWanted) -> str:
        """Return the log of an attempt as far as it is kept."""
        return b"".join(p.read_bytes() for p in sorted(self.directory(order).glob("log.*"))).decode(errors="replace")

    def state(self, order: AttemptWanted) -> SupervisorState | None:
        """Return what the supervisor says on disk."""
        path = self.directory(order) / "state.json"
        return SupervisorState.parse(path.read_bytes()) if path.exists() else None

    def supervisor(self, order: AttemptWanted) -> ProcessIdentity:
        """Return the supervisor's process of an attempt."""
        state = self.state(order)
        assert state is not None
        assert state.supervisor is not None
        return state.supervisor

    def processes(self) -> list[int]:
        """Return the pids of all processes that carry the mark of one of this server's attempts."""
        return [pid for attempt in sorted(self.ever) for pid in marked(attempt)]

    def end(self) -> None:
        """Stop the agent and kill whatever is left; leave nothing behind."""
        self.stop()
        processes = HostProcesses(groups=groups_of_host()[0])
        for attempt in sorted(self.ever):
            path = self.config.attempts_dir / attempt / "state.json"
            state = SupervisorState.parse(path.read_bytes()) if path.exists() else None
            if state is not None and state.supervisor is not None:
                send_signal(state.supervisor, signal.SIGKILL)
            wait_for("no leftovers", lambda one=attempt: processes.end_all(one) == 0)  # type: ignore[misc]
        for path in self.config.state_dir.glob("environments/*-*"):
            processes.end_all(path.name)


def marked(attempt: str) -> list[int]:
    """Return the pids of live processes whose environment carries the attempt's mark."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError):
                if f"CLUSTERWEB_ATTEMPT_ID={attempt}".encode() in Path(f"/proc/{name}/environ").read_bytes().split(
                    b"\0"
                ):
                    found.append(int(name))
    return found


def warm_pids() -> list[int]:
    """Return the processes that wait to become a job."""
    return marked("0" * 26)


def warm_ready() -> bool:
    """Return whether a process waits that has imported all: it has used no time for a while."""
    before = {pid: stat.cpu_ticks for pid in warm_pids() if (stat := read_stat(pid)) is not None}
    time.sleep(1.0)
    after = {pid: stat.cpu_ticks for pid in before if (stat := read_stat(pid)) is not None}
    return any(after.get(pid) == ticks > SOME_IMPORT_TICKS for pid, ticks in before.items())
