"""The ports to the world as interfaces: clock, transport, processes, environments, files, ids.

The agents' state machines and the scheduler's services reach the world through these alone, so that the whole system
also runs in one process on a virtual clock with an in-memory transport.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from agents.protocol.environments import EnvironmentReport, EnvironmentWanted


class Clock(Protocol):
    """Time in three kinds: for people, for durations, for later."""

    def now(self) -> datetime:
        """Return the wall clock, aware, UTC. May jump; never used to measure a duration."""

    def mono_s(self) -> float:
        """Return seconds that only rise, suspend of the machine included (CLOCK_BOOTTIME)."""

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Run ``call`` once after ``delay_s`` seconds."""


class ReportTransport(Protocol):
    """What an agent needs to tell the scheduler. May lose messages."""

    def send_report(self, server_id: str, message: str) -> None:
        """Push a signed report on the list of one server. Raises ConnectionError when there is no broker."""


class Transport(ReportTransport, Protocol):
    """Messages between the scheduler and the agents. May lose, double, delay and reorder; never trusted."""

    def send_desired(self, messages: Mapping[str, str]) -> None:
        """Hand signed desired states to the queues of servers. Raises ConnectionError when there is no broker."""

    def receive_reports(self, server_ids: Sequence[str], *, timeout_s: float) -> list[tuple[str, str]]:
        """Return ``(server_id, message)`` pairs that have arrived, oldest first; waits at most ``timeout_s``."""


class Ids(Protocol):
    """Maker of ids."""

    def ulid(self, at: datetime) -> str:
        """Return a new ULID: 26 characters that sort by time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """Identity of a process beyond its pid: a pid is used again, this is not.

    Attributes:
        boot_id: Of the kernel's present boot.
        pid: Process id.
        start_ticks: Field 22 of /proc/<pid>/stat.
    """

    boot_id: str
    pid: int
    start_ticks: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpawnRequest:
    """What the agent asks for when it starts a supervisor.

    Attributes:
        attempt_id: Names the attempt's directory.
        argv: Program and arguments; never a shell line.
        env: The whole environment of the supervisor.
        cwd: Directory of the attempt.
        handed: What it is told through its standard input, and nowhere else: the secrets of its job.
    """

    attempt_id: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str
    handed: bytes = field(default=b"", repr=False)


class Processes(Protocol):
    """Start, signal and look at processes."""

    def spawn(self, request: SpawnRequest) -> ProcessIdentity:
        """Start a detached process in a session of its own. Raises OSError."""

    def signal(self, identity: ProcessIdentity, number: int, *, group: bool = False) -> bool:
        """Send a signal if the process is still the same one; ``group`` reaches its whole process group."""

    def alive(self, identity: ProcessIdentity) -> bool:
        """Return whether the process exists, is the same one, and is no zombie."""

    def end_all(self, attempt_id: str) -> int:
        """Send KILL to every process that carries the attempt's mark; return how many are still there.

        For what a supervisor that was killed left behind; the mark is ``CLUSTERWEB_ATTEMPT_ID`` in their environment.
        """


class Environments(Protocol):
    """The Python environments of one server."""

    def align(self, wanted: Sequence[EnvironmentWanted], *, in_use: Collection[str]) -> tuple[EnvironmentReport, ...]:
        """Go on towards what is wanted and return how every environment stands.

        Args:
            wanted: What jobs wait for, or will start in.
            in_use: Digests of environments that attempts run in.
        """


class Files(Protocol):
    """The attempt directories, addressed by attempt id and plain file name, and the one file that the agent keeps.

    No path ever comes from outside. Every method but ``read`` raises OSError, as when the disk is full.
    """

    def read(self, attempt_id: str, name: str) -> bytes | None:
        """Return the content, or None when there is no such file or it cannot be read."""

    def write(self, attempt_id: str, name: str, content: bytes) -> None:
        """Replace the file atomically and durably."""

    def create(self, attempt_id: str, name: str, content: bytes) -> bool:
        """Make the file with this content, whole or not at all; False when there is one already. Durable."""

    def attempts(self) -> list[str]:
        """Return the ids of attempts that have a directory, those of other servers included, sorted."""

    def read_own(self) -> bytes | None:
        """Return what the agent of this server wrote last, or None when it never did."""

    def write_own(self, content: bytes) -> None:
        """Replace what the agent of this server keeps, atomically and durably."""
