"""Events and commands of the agent's state machine (``agent_core.py``). Pure data.

``AgentCore.handle(event)`` returns commands; ``executor.py`` carries them out through the ports and brings the outcome
back as the next event. A crash may fall between any two of them.
"""

from dataclasses import dataclass, field
from typing import Literal

from agents.core.records import SupervisorState
from agents.protocol.environments import EnvironmentReport, EnvironmentWanted
from agents.protocol.ports import ProcessIdentity
from agents.protocol.signing import DeviceReport, Stamp

Fields = dict[str, str | int | float]
Level = Literal["debug", "info", "warning", "error"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptOnDisk:
    """The files of one attempt as they were found; None for a file that is not there."""

    attempt_id: str
    launch: bytes | None
    control: bytes | None
    state: bytes | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """The agent starts. ``attempts`` are those in its kept memory, or every directory when that is lost."""

    durable: bytes | None
    attempts: tuple[AttemptOnDisk, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredReceived:
    """A message came in; nothing about it is known yet."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Persisted:
    """The outcome of ``Persist``."""

    stamp: Stamp
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class LaunchCreated:
    """The outcome of ``CreateLaunch``. ``taken`` brings what is there already."""

    attempt_id: str
    outcome: Literal["created", "taken", "failed"]
    problem: str = ""
    on_disk: AttemptOnDisk | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawned:
    """The outcome of ``Spawn``: the supervisor's identity, or why there is none."""

    attempt_id: str
    identity: ProcessIdentity | None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlWritten:
    """The outcome of ``WriteControl``."""

    attempt_id: str
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A look at a supervisor.

    Attributes:
        alive: None when the process is not known. Looked at *before* the state was read: a supervisor
            writes its last state and then goes.
        state: None when there is no state file that can be read.
    """

    attempt_id: str
    alive: bool | None
    state: SupervisorState | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fenced:
    """The outcome of ``Fence``. Not created and no state means that what lies there cannot be read."""

    attempt_id: str
    created: bool
    state: SupervisorState | None = None
    problem: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """The outcome of ``Sweep``: how many processes of the attempt are still there."""

    attempt_id: str
    remaining: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampled:
    """Telemetry of the last second."""

    devices: tuple[DeviceReport, ...]
    cpu_frac: float | None
    used_memory_bytes: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """The outcome of ``Prepare``: how every environment of the server stands."""

    environments: tuple[EnvironmentReport, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A second passed; deadlines are checked and a report is due."""


Event = (
    Started
    | DesiredReceived
    | Persisted
    | LaunchCreated
    | Spawned
    | ControlWritten
    | Observed
    | Fenced
    | Swept
    | Sampled
    | Prepared
    | Tick
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Persist:
    """Write the agent's memory, which survives a restart; answered by ``Persisted``."""

    stamp: Stamp
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateLaunch:
    """Make ``launch.json`` unless there is one; answered by ``LaunchCreated``."""

    attempt_id: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Spawn:
    """Start the attempt's supervisor and hand it what no file may hold; answered by ``Spawned``."""

    attempt_id: str
    handed: bytes = field(default=b"", repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteControl:
    """Replace ``control.json`` and nudge the supervisor; answered by ``ControlWritten``."""

    attempt_id: str
    content: bytes
    supervisor: ProcessIdentity | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fence:
    """Make ``state.json`` unless there is one, so that no supervisor starts any more; answered by ``Fenced``."""

    attempt_id: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """KILL what a dead supervisor left behind; answered by ``Swept``."""

    attempt_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepare:
    """Go on towards the environments that are wanted; answered by ``Prepared``.

    Attributes:
        wanted: Of the newest accepted desired state.
        in_use: Digests of those that attempts run in.
    """

    wanted: tuple[EnvironmentWanted, ...]
    in_use: frozenset[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordEnd:
    """Replace ``state.json`` of an attempt whose supervisor died. No answer: it is found out again after a restart."""

    attempt_id: str
    content: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class SendReport:
    """Push a sealed report. No answer: the next one holds the whole state again."""

    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Forget:
    """Drop the memory of an attempt that has ended and is not named any more."""

    attempt_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Note:
    """Write one line to the log."""

    level: Level
    name: str
    fields: Fields = field(default_factory=dict)


Command = (
    Persist | CreateLaunch | Spawn | WriteControl | Fence | Sweep | Prepare | RecordEnd | SendReport | Forget | Note
)
