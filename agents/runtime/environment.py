"""Environment variables that the supervisor sets for a training process, read once and checked.

Every variable may be missing, as outside Clusterweb: the part of the runtime that needs it then does nothing.
"""

import math
import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from agents.runtime.errors import BadEnvironment


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEnvironment:
    """The surroundings of one attempt; None is outside Clusterweb.

    Attributes:
        report_file: Gets one JSON line a report.
        request_file: Appears when the job is asked for something.
        grant_file: What it may use now.
        checkpoint_dir: Where this attempt's checkpoints go.
        resume_file: Checkpoint to start from; None = start new.
        num_gpus: Granted GPUs, or CPU slots where there are no GPUs.
        num_cpus: Whole cores to use, at least 1 when told.
        memory_bytes: Granted memory.
        owner: Owner of cached items on this server: the attempt, or the job where there is none.
        cache_dir: Folder of this server where jobs that may share datasets keep items.
        datasets_dir: Where such jobs keep what they learned about datasets.
    """

    report_file: Path | None
    request_file: Path | None
    grant_file: Path | None
    checkpoint_dir: Path | None
    resume_file: Path | None
    num_gpus: int | None
    num_cpus: int | None
    memory_bytes: int | None
    owner: str | None
    cache_dir: Path
    datasets_dir: Path

    @staticmethod
    def parse(environ: Mapping[str, str]) -> "JobEnvironment":
        """Read the variables. Raises BadEnvironment with the name of a wrong one."""
        num_gpus = _number(environ, "CLUSTERWEB_NUM_GPUS")
        num_cpus = _number(environ, "CLUSTERWEB_NUM_CPUS")
        memory_bytes = _number(environ, "CLUSTERWEB_MEMORY_BYTES")
        return JobEnvironment(
            report_file=_path(environ, "CLUSTERWEB_REPORT_FILE"),
            request_file=_path(environ, "CLUSTERWEB_REQUEST_FILE"),
            grant_file=_path(environ, "CLUSTERWEB_GRANT_FILE"),
            checkpoint_dir=_path(environ, "CLUSTERWEB_CHECKPOINT_DIR"),
            resume_file=_path(environ, "CLUSTERWEB_RESUME_FILE"),
            num_gpus=None if num_gpus is None else int(num_gpus),
            num_cpus=None if num_cpus is None else max(1, int(num_cpus)),
            memory_bytes=None if memory_bytes is None else int(memory_bytes),
            owner=environ.get("CLUSTERWEB_ATTEMPT_ID") or environ.get("CLUSTERWEB_JOB_ID") or None,
            cache_dir=_path(environ, "CLUSTERWEB_CACHE_DIR") or _own_folder(),
            datasets_dir=_path(environ, "CLUSTERWEB_DATASETS_DIR") or _own_folder(),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GangPlace:
    """Where one process stands in a gang of several.

    Attributes:
        member: Name of this process.
        rank, size: At the start of the gang; for a rank that comes later only that it is not the leader.
        version: Of the membership that it was started for.
        address, port: Where rank 0 listens.
        secret: Known to the members alone.
        own_address: By which other servers reach this one.
        membership_file: For the leader: the members of the gang.
    """

    member: str
    rank: int
    size: int
    version: int
    address: str
    port: int
    secret: str
    own_address: str
    membership_file: Path

    @staticmethod
    def parse(environ: Mapping[str, str]) -> "GangPlace | None":
        """Read the variables; None outside a gang. Raises BadEnvironment with the name of a wrong one."""
        member = environ.get("CLUSTERWEB_GANG_MEMBER", "")
        if not member:
            return None
        numbers = {
            name: _number(environ, name) for name in ("RANK", "WORLD_SIZE", "MASTER_PORT", "CLUSTERWEB_GANG_VERSION")
        }
        for name, number in numbers.items():
            if number is None:
                raise BadEnvironment(f"{name} is missing in a gang")
        rank, size, port, version = (int(number or 0) for number in numbers.values())
        return GangPlace(
            member=member,
            rank=rank,
            size=size,
            version=version,
            address=environ.get("MASTER_ADDR", ""),
            port=port,
            secret=environ.get("CLUSTERWEB_GANG_SECRET", ""),
            own_address=environ.get("CLUSTERWEB_ADDRESS", ""),
            membership_file=Path(environ.get("CLUSTERWEB_GANG_FILE", "")),
        )


def _own_folder() -> Path:
    """Return where a script keeps items outside Clusterweb: in memory where there is such a place."""
    memory = Path("/dev/shm")  # noqa: S108  # the folder below it is the user's own
    base = memory if memory.is_dir() else Path(tempfile.gettempdir())
    return base / f"clusterweb-{os.getuid()}"


def _path(environ: Mapping[str, str], name: str) -> Path | None:
    value = environ.get(name, "")
    return Path(value) if value else None


def _number(environ: Mapping[str, str], name: str) -> float | None:
    text = environ.get(name, "")
    if not text:
        return None
    try:
        value = float(text)
    except ValueError:
        raise BadEnvironment(f"{name}={text!r} is not a number") from None
    if not math.isfinite(value) or value < 0:
        raise BadEnvironment(f"{name}={text!r} is not a count")
    return value
