"""What the scheduler wants of a server: its attempts, each with what it may use. Pure data, strict readers.

How a message travels (signature, order, age) is decided in ``signing.py``.
"""

import signal
from dataclasses import dataclass
from typing import Any, Literal

from agents.protocol.code import SHA256
from agents.protocol.environments import MOST_ENVIRONMENTS, EnvironmentWanted
from agents.protocol.errors import Malformed
from agents.protocol.fields import (
    FILE_NAME,
    MOST_SEALED,
    ULID,
    plain,
    read_float,
    read_int,
    read_ints,
    read_list,
    read_map,
    read_opt_float,
    read_opt_int,
    read_str,
    read_strings,
)
from agents.protocol.gangs import GangOrder

Wanted = Literal["run", "park", "preempt", "suspend", "cancel"]
WANTED: tuple[Wanted, ...] = ("run", "park", "preempt", "suspend", "cancel")
# Those that a job can take and go on.
STOP_SIGNALS = {name: signal.Signals[f"SIG{name}"] for name in ("TERM", "INT", "HUP", "USR1", "USR2")}


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptWanted:
    """One attempt that a server is to run, or to bring to an end.

    Attributes:
        attempt_id: ULID; names the attempt's directory.
        job_id: ULID of its job.
        number: Place among the attempts of its job, the later the greater; 0 where the scheduler does not say it.
        queue_id: Of its job: where the agent can, the jobs of a queue run as a user of their own.
        wanted: ``run``; ``park``: leave the devices at a mini-batch boundary and stay in memory until ``run`` again; or
            the way it is to end: ``preempt`` and ``suspend`` ask for a checkpoint first, ``cancel`` does not.
        generation: Of the server, when the lease was given.
        gpu_indexes: Devices of this server that it may use; none while it is parked.
        gpu_uuids: The same devices by UUID, in the same order.
        cpu_ids: Logical CPUs that it is pinned to.
        memory_bytes: Granted memory; its process tree is ended when it uses more.
        disk_bytes: Most bytes it may have in its directories: of the job, its HOME, scratch, checkpoints, reports.
        log_bytes: Most bytes of log that are kept.
        command: Program and arguments.
        env: What its owner asked for; nothing of the agent's own environment is added to it but PATH and the like.
        files: Small files to lay into its working directory: name to text.
        grace_s: Time from the signal until KILL, seconds; a job that reads requests has as long before that to answer.
        stop_signal: Name of the signal that asks it to end, one of ``STOP_SIGNALS``.
        max_duration_s: Run time after which it is ended, seconds; None for no limit.
        warn_before_s: How long before that it is asked to end, seconds; 0 for not at all.
        stall_s: Time without progress, after the first, after which it is ended, seconds; None for no limit.
        resume_attempt_id: Attempt of the same job whose checkpoint it starts from; empty for none.
        resume_name: Name of the checkpoint; empty for none.
        measure_above: Its speed is to be measured where it can use more cores than this; None when it is not.
        gang: Its place among the processes that train together; None for one that trains alone.
        sealed: Variables whose values are secret, see ``sealing.py``; empty for none, and once it runs.
        code: SHA-256 of the manifest of the folder that it starts in; empty for none.
        environment: Digest of the Python environment that it runs in, built before; empty for none.
        venv: Folder on the server of a virtual environment that it runs in; empty for none.
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
    stall_s: float | None = None
    stop_signal: str = "TERM"
    warn_before_s: float = 0.0
    number: int = 0
    queue_id: int = 0
    resume_attempt_id: str
    resume_name: str
    gang: GangOrder | None = None
    measure_above: int | None = None
    sealed: str = ""
    code: str = ""
    environment: str = ""
    venv: str = ""

    @staticmethod
    def parse(data: dict[str, Any]) -> "AttemptWanted":
        """Read one attempt out of JSON. Raises Malformed."""
        wanted = data["wanted"]
        if wanted not in WANTED:
            raise Malformed("wanted")
        resume_attempt_id = read_str(data, "resume_attempt_id", most=26)
        resume_name = read_str(data, "resume_name", most=80)
        if resume_attempt_id and not (ULID.fullmatch(resume_attempt_id) and FILE_NAME.fullmatch(resume_name)):
            raise Malformed("resume_name")
        stop_signal = read_str(data, "stop_signal", most=8) if "stop_signal" in data else "TERM"
        if stop_signal not in STOP_SIGNALS:
            raise Malformed("stop_signal")
        files = read_map(data, "files", most=64)
        if not all(FILE_NAME.fullmatch(name) for name in files):
            raise Malformed("files")
        return AttemptWanted(
            attempt_id=read_str(data, "attempt_id", pattern=ULID),
            job_id=read_str(data, "job_id", pattern=ULID),
            wanted=wanted,
            generation=read_int(data, "generation"),
            gpu_indexes=read_ints(data, "gpu_indexes"),
            gpu_uuids=read_strings(data, "gpu_uuids", longest=80),
            cpu_ids=read_ints(data, "cpu_ids"),
            memory_bytes=read_int(data, "memory_bytes"),
            disk_bytes=read_int(data, "disk_bytes"),
            log_bytes=read_int(data, "log_bytes"),
            command=read_strings(data, "command"),
            env=read_map(data, "env"),
            files=files,
            grace_s=read_float(data, "grace_s", high=86_400),
            max_duration_s=read_opt_float(data, "max_duration_s"),
            stall_s=read_opt_float(data, "stall_s"),
            stop_signal=stop_signal,
            warn_before_s=read_opt_float(data, "warn_before_s") or 0.0,
            number=read_opt_int(data, "number") or 0,
            queue_id=read_opt_int(data, "queue_id") or 0,
            resume_attempt_id=resume_attempt_id,
            resume_name=resume_name,
            measure_above=read_opt_int(data, "measure_above"),
            gang=GangOrder.read(data.get("gang")),
            sealed=read_str(data, "sealed", most=MOST_SEALED) if "sealed" in data else "",
            # A scheduler of the release before does not say it.
            code=read_str(data, "code", pattern=SHA256) if data.get("code") else "",
            environment=read_str(data, "environment", pattern=SHA256) if data.get("environment") else "",
            venv=read_str(data, "venv", most=4096) if "venv" in data else "",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DesiredState:
    """All that a server is to do. An attempt that it runs and that is not in here is to be ended at once.

    Attributes:
        lease_ttl_s: How long the jobs may run on without an acknowledged heartbeat, seconds.
        acknowledged_sequence: Newest report of this server that the scheduler has taken.
        attempts: Every open attempt of the server.
        environments: Python environments that it is to have; an agent of the release before passes them over.
    """

    lease_ttl_s: float
    acknowledged_sequence: int
    attempts: tuple[AttemptWanted, ...]
    environments: tuple[EnvironmentWanted, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data."""
        data: dict[str, Any] = plain(self)
        return data

    @staticmethod
    def parse(data: dict[str, Any]) -> "DesiredState":
        """Read the body of an envelope. Raises Malformed."""
        try:
            attempts = tuple(AttemptWanted.parse(item) for item in read_list(data, "attempts", most=4096))
            if len({attempt.attempt_id for attempt in attempts}) != len(attempts):
                raise Malformed("attempts")
            return DesiredState(
                lease_ttl_s=read_float(data, "lease_ttl_s", high=86_400),
                acknowledged_sequence=read_int(data, "acknowledged_sequence"),
                attempts=attempts,
                environments=tuple(
                    EnvironmentWanted.parse(item)
                    for item in read_list({"environments": [], **data}, "environments", most=MOST_ENVIRONMENTS)
                ),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise Malformed(str(error)) from None


# Of a report about an attempt: what a job tells, and what is known without.
