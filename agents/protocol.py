"""Signed messages between the scheduler and the agents, version 1.

Scheduler to agent: the whole desired state of one server. Agent to scheduler: the whole actual state of one server, which
is its heartbeat as well. Both are level-triggered: a message lost, doubled, late or out of order changes nothing, the next one
says all there is to say. Pure: no clock, no I/O; the caller passes the time.

    ProtocolError
    ├── Malformed    not our JSON, or a value out of range
    ├── Forged       the MAC does not fit
    ├── Misdirected  for another server or another protocol
    └── Expired      older than its ``expires_at``
"""

import hashlib
import hmac
import json
import math
import re
from dataclasses import asdict, dataclass
from typing import Any, Literal

PROTOCOL = 1
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
EXPIRES_AFTER_S = 600.0
SERVER_ID = re.compile(r"^s[a-z0-9]{11}$")
ULID = re.compile(r"^[0-9A-HJKMNP-TV-Z]{26}$")
FILE_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]{0,79}$")

Wanted = Literal["run", "preempt", "suspend", "cancel"]
WANTED: tuple[Wanted, ...] = ("run", "preempt", "suspend", "cancel")
AttemptPhase = Literal["starting", "running", "stopping", "frozen", "ended"]
PHASES: tuple[AttemptPhase, ...] = ("starting", "running", "stopping", "frozen", "ended")


class ProtocolError(Exception):
    """A message that must not be acted on."""


class Malformed(ProtocolError):
    """It is not a message of ours."""


class Forged(ProtocolError):
    """Its MAC does not fit its content."""


class Misdirected(ProtocolError):
    """It is meant for another server or speaks another protocol."""


class Expired(ProtocolError):
    """It is too old."""


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Stamp:
    """Order of messages of one direction: newer is larger.

    Attributes:
        epoch: Raised when the database is restored, moved or reset.
        generation: Raised when the desired state of the server changes.
        sequence: Raised by every message.
    """

    epoch: int
    generation: int
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """One opened message.

    Attributes:
        server: Id of the server it is to or from.
        stamp: Its place in the order of its direction.
        expires_at_s: Unix time after which nobody acts on it.
        body: Parsed by ``DesiredState.parse`` or ``ServerReport.parse``.
    """

    server: str
    stamp: Stamp
    expires_at_s: float
    body: dict[str, Any]  # JSON; parsed into a dataclass by the receiver at once


def _mac(key: bytes, text: str) -> str:
    return hmac.new(key, text.encode(), hashlib.sha256).hexdigest()


def seal(
    *,
    key: bytes,
    direction: Literal["desired", "report"],
    server: str,
    stamp: Stamp,
    now_s: float,
    body: dict[str, Any],
) -> str:
    """Return the signed message as text. ``now_s`` is Unix time; the message expires 600 s later."""
    content = json.dumps(
        {
            "protocol": PROTOCOL,
            "direction": direction,
            "server": server,
            "epoch": stamp.epoch,
            "generation": stamp.generation,
            "sequence": stamp.sequence,
            "expires_at": now_s + EXPIRES_AFTER_S,
            "body": body,
        },
        separators=(",", ":"),
        allow_nan=False,
    )
    return json.dumps({"content": content, "mac": _mac(key, content)})


def unseal(*, key: bytes, direction: Literal["desired", "report"], server: str, message: str, now_s: float) -> Envelope:
    """Return the message if it is genuine, for (or from) this server and fresh.

    Raises:
        ProtocolError: One of its kinds. The caller counts it and does nothing else.
    """
    if len(message) > MAX_MESSAGE_BYTES:
        raise Malformed(f"{len(message)} bytes")
    try:
        outer = json.loads(message)
        content, mac = outer["content"], outer["mac"]
        if not isinstance(content, str) or not isinstance(mac, str):
            raise Malformed("content and mac must be strings")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Malformed(type(error).__name__) from None
    if not hmac.compare_digest(_mac(key, content), mac):
        raise Forged(server)
    try:
        inner = json.loads(content)
        stamp = Stamp(
            epoch=_int(inner, "epoch"), generation=_int(inner, "generation"), sequence=_int(inner, "sequence")
        )
        expires_at_s = _float(inner, "expires_at", high=1e12)
        if inner["protocol"] != PROTOCOL or inner["direction"] != direction or inner["server"] != server:
            raise Misdirected(f"{inner['server']} {inner['direction']} {inner['protocol']}")
        body = inner["body"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Malformed(type(error).__name__) from None
    if now_s > expires_at_s:
        raise Expired(f"{now_s - expires_at_s:.0f} s ago")
    if not isinstance(body, dict):
        raise Malformed("body")
    return Envelope(server=server, stamp=stamp, expires_at_s=expires_at_s, body=body)


# Readers of single JSON values. Each raises Malformed with the key.


def _int(data: dict[str, Any], key: str, *, low: int = 0, high: int = 2**62) -> int:
    value = data[key]
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise Malformed(key)
    return value


def _float(data: dict[str, Any], key: str, *, low: float = 0.0, high: float = 1e18) -> float:
    value = data[key]
    if (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        or not math.isfinite(value)
        or not low <= value <= high
    ):
        raise Malformed(key)
    return float(value)


def _opt_int(data: dict[str, Any], key: str, *, low: int = 0, high: int = 2**62) -> int | None:
    return None if data.get(key) is None else _int(data, key, low=low, high=high)


def _opt_float(data: dict[str, Any], key: str, *, low: float = 0.0, high: float = 1e18) -> float | None:
    return None if data.get(key) is None else _float(data, key, low=low, high=high)


def _str(data: dict[str, Any], key: str, *, most: int = 300, pattern: re.Pattern[str] | None = None) -> str:
    value = data[key]
    if not isinstance(value, str) or len(value) > most or "\x00" in value or (pattern and not pattern.match(value)):
        raise Malformed(key)
    return value


def _bool(data: dict[str, Any], key: str) -> bool:
    value = data[key]
    if not isinstance(value, bool):
        raise Malformed(key)
    return value


def _list(data: dict[str, Any], key: str, *, most: int) -> list[Any]:
    value = data[key]
    if not isinstance(value, list) or len(value) > most:
        raise Malformed(key)
    return value


def _ints(data: dict[str, Any], key: str, *, most: int = 4096) -> tuple[int, ...]:
    values = _list(data, key, most=most)
    if not all(isinstance(v, int) and not isinstance(v, bool) and v >= 0 for v in values):
        raise Malformed(key)
    return tuple(values)


def _strings(data: dict[str, Any], key: str, *, most: int = 4096, longest: int = 1_000_000) -> tuple[str, ...]:
    values = _list(data, key, most=most)
    if not all(isinstance(v, str) and len(v) <= longest and "\x00" not in v for v in values):
        raise Malformed(key)
    return tuple(values)


def _map(data: dict[str, Any], key: str, *, most: int = 1024) -> dict[str, str]:
    value = data[key]
    if not isinstance(value, dict) or len(value) > most or not all(isinstance(v, str) for v in value.values()):
        raise Malformed(key)
    return dict(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptWanted:
    """One attempt that a server is to run, or to bring to an end.

    Attributes:
        attempt_id: ULID; names the attempt's directory.
        job_id: ULID of its job.
        wanted: ``run``, or the way it is to end: ``preempt`` and ``suspend`` ask for a checkpoint first, ``cancel`` does not.
        generation: Of the server, when the lease was given.
        gpu_indexes: Devices of this server that it may use.
        gpu_uuids: The same devices by UUID, in the same order.
        cpu_ids: Logical CPUs that it is pinned to.
        memory_bytes: Granted memory; its process tree is ended when it uses more.
        disk_bytes: Most bytes its working directory may take.
        log_bytes: Most bytes of log that are kept.
        command: Program and arguments.
        env: What its owner asked for; nothing of the agent's own environment is added to it but PATH and the like.
        files: Small files to lay into its working directory: name to text.
        grace_s: Time from the request to checkpoint until TERM, and again from TERM until KILL, seconds.
        max_duration_s: Run time after which it is ended, seconds; None for no limit.
        resume_attempt_id: Attempt of the same job whose checkpoint it starts from; empty for none.
        resume_name: Name of the checkpoint; empty for none.
    """

    attempt_id: str
    job_id: str
    wanted: Wanted
    generation: int
    gpu_indexes: tuple[int, ...]
    gpu_uuids: tuple[str, ...]
    cpu_ids: tuple[int, ...]
    memory_bytes: int
    disk_bytes: int
    log_bytes: int
    command: tuple[str, ...]
    env: dict[str, str]
    files: dict[str, str]
    grace_s: float
    max_duration_s: float | None
    resume_attempt_id: str
    resume_name: str

    @staticmethod
    def parse(data: dict[str, Any]) -> "AttemptWanted":
        """Read one attempt out of JSON. Raises Malformed."""
        wanted = data["wanted"]
        if wanted not in WANTED:
            raise Malformed("wanted")
        resume_attempt_id = _str(data, "resume_attempt_id", most=26)
        resume_name = _str(data, "resume_name", most=80)
        if resume_attempt_id and not (ULID.match(resume_attempt_id) and FILE_NAME.match(resume_name)):
            raise Malformed("resume_name")
        files = _map(data, "files", most=64)
        if not all(FILE_NAME.match(name) for name in files):
            raise Malformed("files")
        return AttemptWanted(
            attempt_id=_str(data, "attempt_id", pattern=ULID),
            job_id=_str(data, "job_id", pattern=ULID),
            wanted=wanted,
            generation=_int(data, "generation"),
            gpu_indexes=_ints(data, "gpu_indexes"),
            gpu_uuids=_strings(data, "gpu_uuids", longest=80),
            cpu_ids=_ints(data, "cpu_ids"),
            memory_bytes=_int(data, "memory_bytes"),
            disk_bytes=_int(data, "disk_bytes"),
            log_bytes=_int(data, "log_bytes"),
            command=_strings(data, "command"),
            env=_map(data, "env"),
            files=files,
            grace_s=_float(data, "grace_s", high=86_400),
            max_duration_s=_opt_float(data, "max_duration_s"),
            resume_attempt_id=resume_attempt_id,
            resume_name=resume_name,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredState:
    """All that a server is to do. An attempt that it runs and that is not in here is to be ended at once.

    Attributes:
        lease_ttl_s: How long the jobs may run on without an acknowledged heartbeat, seconds.
        acknowledged_sequence: Newest report of this server that the scheduler has taken.
        attempts: Every open attempt of the server.
    """

    lease_ttl_s: float
    acknowledged_sequence: int
    attempts: tuple[AttemptWanted, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)

    @staticmethod
    def parse(data: dict[str, Any]) -> "DesiredState":
        """Read the body of an envelope. Raises Malformed."""
        try:
            attempts = tuple(AttemptWanted.parse(item) for item in _list(data, "attempts", most=4096))
            if len({attempt.attempt_id for attempt in attempts}) != len(attempts):
                raise Malformed("attempts")
            return DesiredState(
                lease_ttl_s=_float(data, "lease_ttl_s", high=86_400),
                acknowledged_sequence=_int(data, "acknowledged_sequence"),
                attempts=attempts,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise Malformed(str(error)) from None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReport:
    """What is true of one attempt on the server.

    Attributes:
        attempt_id: ULID.
        phase: ``frozen`` is stopped by SIGSTOP because the lease ran out; ``ended`` stays in the reports until the desired
            state no longer names the attempt.
        pid: Of the training process; None before it exists.
        run_s: Seconds since the training process started, by the monotonic clock.
        end_cause: A value of the scheduler's list of end causes, when ended; else empty.
        end_detail: One sentence with the numbers.
        exit_code, exit_signal: Of the training process, when it ended by itself.
        step, total_steps, loss, steps_per_s: Newest progress that the job reported; None when it has not.
        first_step: Step at which this attempt began to train.
        checkpoint_name, checkpoint_step: Newest complete checkpoint in the attempt's directory; empty and None for none.
        cpu_frac: Used cores over granted cores of the last second, 0 to 1 (a little more is clipped).
        memory_bytes, peak_memory_bytes: Resident memory of the process tree.
        gpu_frac: Mean utilization of its devices, 0 to 1; None when not measured.
        log_bytes: Bytes of log written so far, those dropped by rotation included.
    """

    attempt_id: str
    phase: AttemptPhase
    pid: int | None = None
    run_s: float = 0.0
    end_cause: str = ""
    end_detail: str = ""
    exit_code: int | None = None
    exit_signal: int | None = None
    first_step: int | None = None
    step: int | None = None
    total_steps: int | None = None
    loss: float | None = None
    steps_per_s: float | None = None
    checkpoint_name: str = ""
    checkpoint_step: int | None = None
    cpu_frac: float | None = None
    memory_bytes: int | None = None
    peak_memory_bytes: int | None = None
    gpu_frac: float | None = None
    log_bytes: int = 0

    @staticmethod
    def parse(data: dict[str, Any]) -> "AttemptReport":
        """Read one attempt out of JSON. Raises Malformed."""
        phase = data["phase"]
        if phase not in PHASES:
            raise Malformed("phase")
        checkpoint_name = _str(data, "checkpoint_name", most=80)
        if checkpoint_name and not FILE_NAME.match(checkpoint_name):
            raise Malformed("checkpoint_name")
        return AttemptReport(
            attempt_id=_str(data, "attempt_id", pattern=ULID),
            phase=phase,
            pid=_opt_int(data, "pid"),
            run_s=_float(data, "run_s"),
            end_cause=_str(data, "end_cause", most=20),
            end_detail=_str(data, "end_detail", most=300),
            exit_code=_opt_int(data, "exit_code", low=-(2**31), high=2**31),
            exit_signal=_opt_int(data, "exit_signal", high=128),
            first_step=_opt_int(data, "first_step"),
            step=_opt_int(data, "step"),
            total_steps=_opt_int(data, "total_steps"),
            loss=_opt_float(data, "loss", low=-1e18),
            steps_per_s=_opt_float(data, "steps_per_s"),
            checkpoint_name=checkpoint_name,
            checkpoint_step=_opt_int(data, "checkpoint_step"),
            cpu_frac=_opt_float(data, "cpu_frac", high=1.0),
            memory_bytes=_opt_int(data, "memory_bytes"),
            peak_memory_bytes=_opt_int(data, "peak_memory_bytes"),
            gpu_frac=_opt_float(data, "gpu_frac", high=1.0),
            log_bytes=_int(data, "log_bytes"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceReport:
    """One GPU or CPU slot of the server. ``utilization_frac`` is 0 to 1; None where it is not measured."""

    index: int
    uuid: str
    model: str
    memory_bytes: int
    healthy: bool
    health_reason: str = ""
    utilization_frac: float | None = None
    used_memory_bytes: int | None = None
    temperature_c: float | None = None

    @staticmethod
    def parse(data: dict[str, Any]) -> "DeviceReport":
        """Read one device out of JSON. Raises Malformed."""
        return DeviceReport(
            index=_int(data, "index", high=1023),
            uuid=_str(data, "uuid", most=80),
            model=_str(data, "model", most=80),
            memory_bytes=_int(data, "memory_bytes"),
            healthy=_bool(data, "healthy"),
            health_reason=_str(data, "health_reason", most=200),
            utilization_frac=_opt_float(data, "utilization_frac", high=1.0),
            used_memory_bytes=_opt_int(data, "used_memory_bytes"),
            temperature_c=_opt_float(data, "temperature_c", low=-100, high=1000),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """All that is true of one server; sent every second and at once when an attempt changes. It is the heartbeat too.

    The envelope's stamp carries the (epoch, generation) of the desired state that the agent works on now.

    Attributes:
        agent_version: Of the agent's code.
        boot_id: Of the kernel's present boot.
        device_kind: ``gpu`` or ``cpu_slot``.
        isolation: ``none`` or the name of what keeps jobs apart.
        num_cpus: Cores on offer.
        memory_bytes: Memory on offer.
        cpu_frac: Load of the cores on offer, 0 to 1.
        used_memory_bytes: Memory in use on the machine.
        devices: All devices, by index.
        attempts: Every attempt the agent knows of.
    """

    agent_version: str
    boot_id: str
    device_kind: str
    isolation: str
    num_cpus: int
    memory_bytes: int
    cpu_frac: float | None
    used_memory_bytes: int | None
    devices: tuple[DeviceReport, ...]
    attempts: tuple[AttemptReport, ...]

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        return asdict(self)

    @staticmethod
    def parse(data: dict[str, Any]) -> "ServerReport":
        """Read the body of an envelope. Raises Malformed."""
        try:
            if data["device_kind"] not in ("gpu", "cpu_slot"):
                raise Malformed("device_kind")
            devices = tuple(DeviceReport.parse(item) for item in _list(data, "devices", most=1024))
            attempts = tuple(AttemptReport.parse(item) for item in _list(data, "attempts", most=4096))
            if len({device.index for device in devices}) != len(devices):
                raise Malformed("devices")
            return ServerReport(
                agent_version=_str(data, "agent_version", most=40),
                boot_id=_str(data, "boot_id", most=64),
                device_kind=data["device_kind"],
                isolation=_str(data, "isolation", most=40),
                num_cpus=_int(data, "num_cpus", high=100_000),
                memory_bytes=_int(data, "memory_bytes"),
                cpu_frac=_opt_float(data, "cpu_frac", high=1.0),
                used_memory_bytes=_opt_int(data, "used_memory_bytes"),
                devices=devices,
                attempts=attempts,
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise Malformed(str(error)) from None
