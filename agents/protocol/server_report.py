"""What an agent tells of its server: what is true of its attempts and devices. Pure data, strict readers.

How a message travels (signature, order, age) is decided in ``signing.py``.
"""

from dataclasses import dataclass, replace
from typing import Any, Literal

from agents.protocol.environments import MOST_ENVIRONMENTS, PYTHON, EnvironmentReport
from agents.protocol.errors import Malformed
from agents.protocol.fields import (
    FILE_NAME,
    MOST_LOSS,
    MOST_PAUSE_S,
    MOST_STEPS,
    MOST_STEPS_PER_S,
    ULID,
    plain,
    read_bool,
    read_float,
    read_int,
    read_list,
    read_opt_float,
    read_opt_int,
    read_str,
)
from agents.protocol.profile import Measured

AttemptPhase = Literal["starting", "running", "parked", "stopping", "frozen", "ended"]
PHASES: tuple[AttemptPhase, ...] = ("starting", "running", "parked", "stopping", "frozen", "ended")
# Begins the version of an agent that has no machine, for demonstrations: see ``agents/simulated``.
SIMULATED = "simulated"
_OF_THE_JOB = {
    *("first_step", "step", "total_steps", "loss", "steps_per_s", "cached_frac", "checkpoint_step", "measured"),
    *("gang_version", "gang_size", "switch_s"),
}
_KNOWN_TO_AGENT = (
    *("attempt_id", "phase", "generation", "pid", "run_s", "end_cause", "end_detail", "exit_code", "exit_signal"),
    *("failure", "failure_line", "peak_memory_bytes", "log_bytes", "directory_bytes"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptReport:
    """What is true of one attempt on the server.

    Attributes:
        attempt_id: ULID.
        phase: ``parked`` has left its devices and waits in memory; ``frozen`` is stopped by SIGSTOP because the lease
            ran out; ``ended`` stays in the reports until the desired state no longer names the attempt.
        generation: Of the newest control that its supervisor has taken in.
        pid: Of the training process; None before it exists.
        run_s: Seconds since the training process started, without those it was parked, by the monotonic clock.
        end_cause: A value of the scheduler's list of end causes, when ended; else empty.
        end_detail: One sentence with the numbers.
        exit_code, exit_signal: Of the training process, when it ended by itself.
        failure, failure_line: What failed by the end of its output, a value of the scheduler's list of failures, and
            the line that says so; empty when nothing does.
        step, total_steps, loss, steps_per_s: Newest progress that the job reported; None when it has not.
        cached_frac: Share of the items of its datasets that is in the memory of this server, 0 to 1; None when it has
            told of none.
        first_step: Step at which this attempt began to train.
        checkpoint_name, checkpoint_step: Newest complete checkpoint in the attempt's directory; empty and None for
            none.
        gang_version, gang_size, switch_s: Of a gang's leader: newest membership that it is done with, ranks that train,
            and how long training stood still for the newest change of their number, seconds.
        cpu_frac: Used cores over granted cores of the last second, 0 to 1 (a little more is clipped).
        memory_bytes: Resident memory of the process tree, and the items of datasets that it keeps in shared memory.
        peak_memory_bytes: Most that its processes used, without such items.
        measured: How its speed depends on cores, once that is measured.
        unusable: Which of the job's numbers are left out, because they are out of range; empty for none.
        gpu_frac: Mean utilization of its devices, 0 to 1; None when not measured.
        log_bytes: Bytes of log written so far, those dropped by rotation included.
        directory_bytes: Of the directory and the HOME of its job; None when not measured.
    """

    attempt_id: str
    phase: AttemptPhase
    generation: int = 0
    pid: int | None = None
    run_s: float = 0.0
    end_cause: str = ""
    end_detail: str = ""
    exit_code: int | None = None
    exit_signal: int | None = None
    failure: str = ""
    failure_line: str = ""
    first_step: int | None = None
    step: int | None = None
    total_steps: int | None = None
    loss: float | None = None
    steps_per_s: float | None = None
    cached_frac: float | None = None
    checkpoint_name: str = ""
    checkpoint_step: int | None = None
    gang_version: int | None = None
    gang_size: int | None = None
    switch_s: float | None = None
    cpu_frac: float | None = None
    memory_bytes: int | None = None
    peak_memory_bytes: int | None = None
    gpu_frac: float | None = None
    log_bytes: int = 0
    directory_bytes: int | None = None
    measured: Measured | None = None
    unusable: str = ""

    def bare(self) -> "AttemptReport":
        """Return what is known of it without the job's own numbers."""
        return AttemptReport(**{name: getattr(self, name) for name in _KNOWN_TO_AGENT})

    @staticmethod
    def parse_usable(data: dict[str, Any]) -> "AttemptReport":
        """Read one attempt out of JSON, without those of the job's numbers that are out of range. Raises Malformed."""
        odd: list[str] = []
        while True:
            try:
                return replace(AttemptReport.parse(data), unusable=", ".join(odd))
            except (Malformed, KeyError, TypeError) as error:
                name = str(error) if str(error) in _OF_THE_JOB else "measured"
                if data.get(name) is None:
                    raise
                data = {**data, name: None}
                odd.append(name)

    @staticmethod
    def parse(data: dict[str, Any]) -> "AttemptReport":
        """Read one attempt out of JSON. Raises Malformed."""
        phase = data["phase"]
        if phase not in PHASES:
            raise Malformed("phase")
        checkpoint_name = read_str(data, "checkpoint_name", most=80)
        if checkpoint_name and not FILE_NAME.fullmatch(checkpoint_name):
            raise Malformed("checkpoint_name")
        return AttemptReport(
            attempt_id=read_str(data, "attempt_id", pattern=ULID),
            phase=phase,
            generation=read_opt_int(data, "generation") or 0,  # a supervisor of before has none
            pid=read_opt_int(data, "pid"),
            run_s=read_float(data, "run_s"),
            end_cause=read_str(data, "end_cause", most=20),
            end_detail=read_str(data, "end_detail", most=300),
            exit_code=read_opt_int(data, "exit_code", low=-(2**31), high=2**31),
            exit_signal=read_opt_int(data, "exit_signal", high=128),
            # An agent of the release before does not say it.
            failure=read_str(data, "failure", most=20) if "failure" in data else "",
            failure_line=read_str(data, "failure_line", most=300) if "failure_line" in data else "",
            first_step=read_opt_int(data, "first_step", high=MOST_STEPS),
            step=read_opt_int(data, "step", high=MOST_STEPS),
            total_steps=read_opt_int(data, "total_steps", high=MOST_STEPS),
            loss=read_opt_float(data, "loss", low=-MOST_LOSS, high=MOST_LOSS),
            steps_per_s=read_opt_float(data, "steps_per_s", high=MOST_STEPS_PER_S),
            cached_frac=read_opt_float(data, "cached_frac", high=1.0),
            checkpoint_name=checkpoint_name,
            checkpoint_step=read_opt_int(data, "checkpoint_step", high=MOST_STEPS),
            gang_version=read_opt_int(data, "gang_version"),
            gang_size=read_opt_int(data, "gang_size"),
            switch_s=read_opt_float(data, "switch_s", high=MOST_PAUSE_S),
            cpu_frac=read_opt_float(data, "cpu_frac", high=1.0),
            memory_bytes=read_opt_int(data, "memory_bytes"),
            peak_memory_bytes=read_opt_int(data, "peak_memory_bytes"),
            gpu_frac=read_opt_float(data, "gpu_frac", high=1.0),
            log_bytes=read_int(data, "log_bytes"),
            directory_bytes=read_opt_int(data, "directory_bytes"),
            measured=None if data.get("measured") is None else Measured.parse(data["measured"]),
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
            index=read_int(data, "index", high=1023),
            uuid=read_str(data, "uuid", most=80),
            model=read_str(data, "model", most=80),
            memory_bytes=read_int(data, "memory_bytes"),
            healthy=read_bool(data, "healthy"),
            health_reason=read_str(data, "health_reason", most=200),
            utilization_frac=read_opt_float(data, "utilization_frac", high=1.0),
            used_memory_bytes=read_opt_int(data, "used_memory_bytes"),
            temperature_c=read_opt_float(data, "temperature_c", low=-100, high=1000),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerReport:
    """All that is true of one server; sent every second and at once when an attempt changes. It is the heartbeat too.

    The envelope's stamp carries the (epoch, generation) of the desired state that the agent works on now.

    Attributes:
        agent_version: Of the agent's code.
        boot_id: Of the kernel's present boot.
        address: By which the other servers reach this one; empty when not known.
        device_kind: ``gpu`` or ``cpu_slot``.
        isolation: ``none`` or the name of what keeps jobs apart.
        num_cpus: Cores on offer.
        memory_bytes: Memory on offer.
        cpu_frac: Load of the cores on offer, 0 to 1.
        used_memory_bytes: Memory in use on the machine.
        devices: All devices, by index.
        attempts: Every attempt the agent knows of.
        environments: Python environments that it has or builds; None while it does not know.
        python: Version of the Python that environments are built with; empty where the server can build none.
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
    address: str = ""
    environments: tuple[EnvironmentReport, ...] | None = None
    python: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        data: dict[str, Any] = plain(self)
        return data

    @staticmethod
    def parse(data: dict[str, Any]) -> "ServerReport":
        """Read the body of an envelope. Raises Malformed."""
        try:
            if data["device_kind"] not in ("gpu", "cpu_slot"):
                raise Malformed("device_kind")
            devices = tuple(DeviceReport.parse(item) for item in read_list(data, "devices", most=1024))
            attempts = tuple(AttemptReport.parse_usable(item) for item in read_list(data, "attempts", most=4096))
            if len({device.index for device in devices}) != len(devices):
                raise Malformed("devices")
            return ServerReport(
                agent_version=read_str(data, "agent_version", most=40),
                boot_id=read_str(data, "boot_id", most=64),
                device_kind=data["device_kind"],
                isolation=read_str(data, "isolation", most=40),
                num_cpus=read_int(data, "num_cpus", high=100_000),
                memory_bytes=read_int(data, "memory_bytes"),
                cpu_frac=read_opt_float(data, "cpu_frac", high=1.0),
                used_memory_bytes=read_opt_int(data, "used_memory_bytes"),
                devices=devices,
                attempts=attempts,
                address=read_str(data, "address", most=253) if "address" in data else "",
                environments=None
                if data.get("environments") is None
                else tuple(map(EnvironmentReport.parse, read_list(data, "environments", most=MOST_ENVIRONMENTS))),
                python=read_str(data, "python", pattern=PYTHON) if data.get("python") else "",
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise Malformed(str(error)) from None
