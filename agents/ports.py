"""The five doors to the world: clock, transport, processes, files, ids.

Protocol, agent life cycle and the scheduler's services reach the world through these and nothing else, so that the
whole system also runs in one process on a virtual clock with an in-memory transport.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


class Clock(Protocol):
    """Time in three kinds: for people, for durations, for later."""

    def now(self) -> datetime:
        """Return the wall clock, aware, UTC. May jump; never used to measure a duration."""

    def mono_s(self) -> float:
        """Return seconds that only rise, suspend of the machine included (CLOCK_BOOTTIME)."""

    def call_later(self, delay_s: float, call: Callable[[], None]) -> None:
        """Run ``call`` once after ``delay_s`` seconds."""


class Transport(Protocol):
    """Messages between the scheduler and the agents. May lose, double, delay and reorder; never trusted."""

    def send_desired(self, server_id: str, message: str) -> None:
        """Hand a signed desired state to the queue of one server. Raises ConnectionError when there is no broker."""

    def send_report(self, server_id: str, message: str) -> None:
        """Push a signed report on the list of one server. Raises ConnectionError when there is no broker."""

    def receive_reports(self, server_ids: Sequence[str], *, timeout_s: float) -> list[tuple[str, str]]:
        """Return ``(server_id, message)`` pairs that have arrived, oldest first; waits at most ``timeout_s``."""


class Ids(Protocol):
    """Maker of ids."""

    def ulid(self, at: datetime) -> str:
        """Return a new ULID: 26 characters that sort by time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessIdentity:
    """Who a process is, beyond its pid: a pid is used again, this is not.

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
    """

    attempt_id: str
    argv: tuple[str, ...]
    env: Mapping[str, str]
    cwd: str


class Processes(Protocol):
    """Start, signal and look at processes."""

    def spawn(self, request: SpawnRequest) -> ProcessIdentity:
        """Start a detached process in a session of its own. Raises OSError."""

    def signal(self, identity: ProcessIdentity, number: int, *, group: bool = False) -> bool:
        """Send a signal if the process is still the same one; ``group`` reaches its whole process group."""

    def alive(self, identity: ProcessIdentity) -> bool:
        """Return whether the process exists, is the same one, and is no zombie."""


class Files(Protocol):
    """The attempt directories, addressed by attempt id and plain file name; no path ever comes from outside."""

    def read(self, attempt_id: str, name: str) -> bytes | None:
        """Return the content, or None when there is no such file."""

    def write(self, attempt_id: str, name: str, content: bytes) -> None:
        """Replace the file atomically and durably. Raises OSError when the disk is full."""

    def attempts(self) -> list[str]:
        """Return the ids of attempts that have a directory on this server, sorted."""
