"""Contents of the files by which agent, supervisor and job communicate in an attempt's directory. Pure.

    launch.json    agent -> supervisor, once: the order, made with exclusive create: its maker owns the launch
    control.json   agent -> supervisor: how the attempt is to go on, and until when the lease runs
    state.json     supervisor -> agent: what is true; also made with exclusive create, so that nothing starts twice
    gang.json      supervisor -> job, for the leader of a gang: its members
    hostfile       supervisor -> job, in a gang of one process a server: its servers
    grant.json     supervisor -> job: cores and memory that it may use now
    request.json   supervisor -> job: checkpoint, park, continue or stop
    reports.jsonl  job -> supervisor: one line a report

A hostile job may write any of them, so every reader checks; a file that does not parse counts as absent.
"""

import json
import math
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from agents.protocol.desired_state import WANTED, AttemptWanted, Wanted
from agents.protocol.errors import Malformed
from agents.protocol.fields import (
    FILE_NAME,
    MOST_LOSS,
    MOST_PAUSE_S,
    MOST_STEPS,
    MOST_STEPS_PER_S,
    SERVER_ID,
    ULID,
    plain,
    read_float,
    read_int,
    read_ints,
    read_opt_int,
    read_str,
    read_strings,
)
from agents.protocol.gangs import read_members
from agents.protocol.grant import Grant
from agents.protocol.ports import ProcessIdentity
from agents.protocol.profile import Measured
from agents.protocol.server_report import AttemptReport

LAUNCH_FILE = "launch.json"
CONTROL_FILE = "control.json"
STATE_FILE = "state.json"
REQUEST_FILE = "request.json"
GRANT_FILE = "grant.json"
GANG_FILE = "gang.json"
HOST_FILE = "hostfile"
REPORT_FILE = "reports.jsonl"
CHECKPOINT_DIR = "checkpoints"
# Beside the directory of all attempts: what jobs learned about datasets.
DATASETS_DIR = "datasets"
# Home directory of a job, beside its working directory.
HOME_DIR = "home"
# Below the state directory of a server: local files that live as long as an attempt.
SCRATCH_DIR = "scratch"
# Beside SCRATCH_DIR: Python environments of jobs.
ENVIRONMENTS_DIR = "environments"

# Exit code of a job that stopped because it was asked to, after its checkpoint.
EXIT_STOPPED = 75

_WRONG_SHAPE = (ValueError, KeyError, TypeError, AttributeError, RecursionError)

JobEvent = Literal["started", "progress", "measured", "checkpoint", "parked", "resized", "stopped", "completed"]
JOB_EVENTS: tuple[JobEvent, ...] = get_args(JobEvent)


def encode(record: Any) -> bytes:  # any of the dataclasses below
    """Return the record as one line of JSON."""
    return json.dumps(plain(record), separators=(",", ":"), allow_nan=False).encode()


def _decode(content: bytes) -> dict[str, Any]:
    try:
        data = json.loads(content)
    except _WRONG_SHAPE as error:
        raise Malformed(type(error).__name__) from None
    if not isinstance(data, dict):
        raise Malformed("not a map")
    return data


def read_identity(data: dict[str, Any], key: str) -> ProcessIdentity | None:
    """Return a process identity out of JSON, or None when it is missing. Raises Malformed."""
    value = data.get(key)
    if value is None:
        return None
    if not isinstance(value, dict):
        raise Malformed(key)
    try:
        return ProcessIdentity(
            boot_id=read_str(value, "boot_id", most=64),
            pid=read_int(value, "pid", low=1, high=2**31),
            start_ticks=read_int(value, "start_ticks"),
        )
    except KeyError as error:
        raise Malformed(str(error)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class Control:
    """How an attempt is to go on.

    Attributes:
        wanted: ``run``, ``park`` or the way it is to end; an end once begun is never taken back.
        generation: Of the desired state that says so.
        grace_s: From the signal to stop until KILL, and from a request until the signal, seconds.
        lease_until_s: CLOCK_BOOTTIME at which the job is frozen unless the lease is renewed.
        lease_margin_s: How long before that it is asked for a checkpoint, seconds.
        grant: What it may use; None where it is as at the launch.
        gang_version, members: Newest membership of the gang that it leads; no members for one that leads none.
    """

    wanted: Wanted
    generation: int
    grace_s: float
    lease_until_s: float
    lease_margin_s: float
    grant: Grant | None = None
    gang_version: int = 0
    members: tuple[str, ...] = ()

    @staticmethod
    def read(data: dict[str, Any]) -> "Control":
        """Read it out of JSON. Raises Malformed, KeyError."""
        if data["wanted"] not in WANTED:
            raise Malformed("wanted")
        return Control(
            wanted=data["wanted"],
            generation=read_int(data, "generation"),
            grace_s=read_float(data, "grace_s"),
            lease_until_s=read_float(data, "lease_until_s"),
            lease_margin_s=read_float(data, "lease_margin_s"),
            grant=None if data.get("grant") is None else Grant.read(data["grant"]),
            gang_version=read_opt_int(data, "gang_version") or 0,
            members=read_members(data) if "members" in data else (),
        )

    @staticmethod
    def parse(content: bytes | None) -> "Control | None":
        """Read the file's content; None when it is absent or not ours."""
        try:
            return None if content is None else Control.read(_decode(content))
        except (Malformed, KeyError, TypeError):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """Everything a supervisor needs to run one attempt.

    Attributes:
        server_id: Whose agent made it.
        epoch: Of the desired state that it comes from.
        order: What to run.
        control: How it stood at the launch; ``control.json`` replaces it.
        cpu_ids: Cores of this machine to pin to; empty for no pinning.
        visible_devices: Value of CUDA_VISIBLE_DEVICES, in order; empty on CPU slots.
        journal_dir: Directory of the server's process journal.
        uid: User that the job runs as; None for the agent's own.
        address: By which the other servers reach this one; empty when not known.
        venv: Folder of the virtual environment that it runs in; empty for the agent's own Python.
    """

    server_id: str
    epoch: int
    order: AttemptWanted
    control: Control
    cpu_ids: tuple[int, ...]
    visible_devices: tuple[str, ...]
    journal_dir: str
    uid: int | None = None
    address: str = ""
    venv: str = ""

    @staticmethod
    def parse(content: bytes) -> "Launch":
        """Read the file's content. Raises Malformed."""
        data = _decode(content)
        try:
            return Launch(
                server_id=read_str(data, "server_id", pattern=SERVER_ID),
                epoch=read_int(data, "epoch"),
                order=AttemptWanted.parse(data["order"]),
                control=Control.read(data["control"]),
                cpu_ids=read_ints(data, "cpu_ids"),
                visible_devices=read_strings(data, "visible_devices", longest=80),
                journal_dir=read_str(data, "journal_dir", most=4096),
                uid=read_opt_int(data, "uid"),
                address=read_str(data, "address", most=253) if "address" in data else "",
                venv=read_str(data, "venv", most=8192) if "venv" in data else "",
            )
        except _WRONG_SHAPE as error:
            raise Malformed(str(error)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorState:
    """What a supervisor says of its attempt: its processes and the report to the scheduler.

    Attributes:
        supervisor: None when the agent wrote the state, for an attempt that no supervisor will ever run.
        trainer: None before the training process exists.
        report: As it is sent to the scheduler.
        dropped_log_bytes: Output that was thrown away because it came too fast or the disk was full.
        note: What the agent is to log about the start of the job.
    """

    supervisor: ProcessIdentity | None
    trainer: ProcessIdentity | None
    report: AttemptReport
    dropped_log_bytes: int = 0
    note: str = ""

    @staticmethod
    def parse(content: bytes | None) -> "SupervisorState | None":
        """Read the file's content; None when it is absent or not ours."""
        if content is None:
            return None
        try:
            data = _decode(content)
            return SupervisorState(
                supervisor=read_identity(data, "supervisor"),
                trainer=read_identity(data, "trainer"),
                report=AttemptReport.parse(data["report"]),
                dropped_log_bytes=read_int(data, "dropped_log_bytes"),
                note=read_str(data, "note", most=300) if "note" in data else "",
            )
        except (Malformed, *_WRONG_SHAPE):
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenLine:
    """One line that the job wrote. ``loss`` is None when it is not a finite number; ``request`` is what it answers."""

    event: JobEvent
    step: int | None = None
    total_steps: int | None = None
    loss: float | None = None
    steps_per_s: float | None = None
    cached_frac: float | None = None
    measured: Measured | None = None
    request: int | None = None
    name: str = ""
    version: int | None = None
    ranks: int | None = None
    pause_s: float | None = None

    @staticmethod
    def parse(line: bytes) -> "WrittenLine | None":
        """Read one line; None when it is not one of ours."""
        try:
            data = _decode(line)
            if data.get("event") not in JOB_EVENTS:
                return None
            name = read_str(data, "name", most=80, pattern=FILE_NAME) if data["event"] == "checkpoint" else ""
            return WrittenLine(
                event=data["event"],
                step=read_opt_int(data, "step", high=MOST_STEPS),
                total_steps=read_opt_int(data, "total_steps", high=MOST_STEPS),
                loss=_finite(data.get("loss"), low=-MOST_LOSS, high=MOST_LOSS),
                steps_per_s=_finite(data.get("steps_per_s"), low=0.0, high=MOST_STEPS_PER_S),
                cached_frac=_finite(data.get("cached_frac"), low=0.0, high=1.0),
                measured=Measured.parse(data["measured"]) if data["event"] == "measured" else None,
                request=read_opt_int(data, "request"),
                name=name,
                version=read_opt_int(data, "version"),
                ranks=read_opt_int(data, "ranks"),
                pause_s=_finite(data.get("pause_s"), low=0.0, high=MOST_PAUSE_S),
            )
        except (Malformed, *_WRONG_SHAPE):
            return None


def _finite(value: object, *, low: float, high: float) -> float | None:
    """Return the number if it can be reported: a loss of NaN is common and no reason to drop the step beside it."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        return None
    return float(value) if math.isfinite(value) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Durable:
    """What the agent keeps over a restart.

    Attributes:
        epoch, generation, sequence: Stamp of the newest accepted desired state.
        report_ceiling: No report with a sequence above it was ever sent.
        attempts: Every attempt claimed and not yet forgotten, with the identity of its supervisor once it is known.
    """

    epoch: int = 0
    generation: int = 0
    sequence: int = 0
    report_ceiling: int = 0
    attempts: dict[str, ProcessIdentity | None] = field(default_factory=dict)

    @staticmethod
    def parse(content: bytes) -> "Durable":
        """Read the file's content. Raises Malformed."""
        data = _decode(content)
        try:
            attempts = data["attempts"]
            if not all(ULID.fullmatch(attempt_id) for attempt_id in attempts):
                raise Malformed("attempts")
            return Durable(
                epoch=read_int(data, "epoch"),
                generation=read_int(data, "generation"),
                sequence=read_int(data, "sequence"),
                report_ceiling=read_int(data, "report_ceiling"),
                attempts={attempt_id: read_identity(attempts, attempt_id) for attempt_id in attempts},
            )
        except _WRONG_SHAPE as error:
            raise Malformed(str(error)) from None


def ended_unsupervised(*, attempt_id: str, cause: str, detail: str) -> SupervisorState:
    """Return the state of an attempt that ends without a supervisor having run it."""
    return SupervisorState(
        supervisor=None,
        trainer=None,
        report=AttemptReport(attempt_id=attempt_id, phase="ended", end_cause=cause, end_detail=detail[:300]),
    )
