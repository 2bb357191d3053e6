"""Events and commands of the supervisor's state machine (``supervision.py``). Pure data."""

from dataclasses import dataclass
from typing import Literal

from agents.core.ending import Exit
from agents.core.records import Control, WrittenLine
from agents.protocol.grant import Grant
from agents.protocol.ports import ProcessIdentity


@dataclass(frozen=True, slots=True, kw_only=True)
class Begin:
    """The attempt is claimed by this supervisor; nothing runs yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildStarted:
    """The training process runs; ``note`` is what the agent is to log about its start."""

    identity: ProcessIdentity
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildFailed:
    """The training process could not be started."""

    cause: Literal["command_not_found", "launch_failed", "environment"]
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildExited:
    """The training process ended; others of its tree may still run."""

    exit: Exit


@dataclass(frozen=True, slots=True, kw_only=True)
class NoneLeft:
    """The training process has ended, and no other process of the attempt is left."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeGone:
    """No process of the attempt is left, and all it wrote has been read; ``output`` is the end of it.

    The kernel may have ended it meanwhile, because the machine had no memory left or because it took more than granted.
    """

    is_kernel_oom: bool = False
    is_over_limit: bool = False
    output: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlChanged:
    """The agent wrote a new control."""

    control: Control


@dataclass(frozen=True, slots=True, kw_only=True)
class EndAsked:
    """The supervisor itself was asked to end, as when the machine goes down."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DirectoryTaken:
    """A later attempt of the job has begun in its directory, so this one must not write there any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MemorySampled:
    """Resident bytes of the whole process tree, and items of datasets that the job keeps in shared memory."""

    memory_bytes: int
    cached_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class UsageSampled:
    """CPU, disk, log and process use, sampled once a second.

    Attributes:
        cpu_frac: Used over granted cores, 0 to 1; None when there is no second sample yet.
        disk_bytes: Of the directories that the job writes, the log apart.
        directory_bytes: Of the directory and the HOME of the job alone; None before they are there.
        is_disk_full: The file system has no room.
        log_bytes: Written so far.
        dropped_log_bytes: Thrown away so far.
        num_processes: Of the attempt.
    """

    cpu_frac: float | None
    disk_bytes: int
    is_disk_full: bool
    log_bytes: int
    dropped_log_bytes: int
    num_processes: int = 0
    directory_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobReported:
    """The job wrote a line; a checkpoint it names was looked at and is there."""

    line: WrittenLine


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """Time passed; deadlines are checked."""


Event = (
    Begin
    | ChildStarted
    | ChildFailed
    | ChildExited
    | NoneLeft
    | TreeGone
    | ControlChanged
    | EndAsked
    | DirectoryTaken
    | MemorySampled
    | UsageSampled
    | JobReported
    | Tick
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Give:
    """Pin the process tree to its cores and write ``grant.json``."""

    grant: Grant


@dataclass(frozen=True, slots=True, kw_only=True)
class StartChild:
    """Start the training process; answered by ``ChildStarted`` or ``ChildFailed``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteRequest:
    """Replace ``request.json``."""

    number: int
    request: Literal["checkpoint", "park", "continue", "stop"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteMembers:
    """Replace ``gang.json``."""

    version: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """Send a signal to every process of the attempt; ``is_once`` to none of them twice."""

    number: int
    is_once: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Journal:
    """Add a line to the process journal."""

    event: Literal["start", "stop", "continue", "exit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteState:
    """Replace ``state.json``; ``durable`` when it must survive a power cut."""

    durable: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearTree:
    """Kill and reap every process of the attempt; answered by ``TreeGone``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finish:
    """End the supervisor once the last state is on disk."""


Command = Give | StartChild | WriteRequest | WriteMembers | Signal | Journal | WriteState | ClearTree | Finish
