"""The job spec: what a user asks for. Parses and checks it; writes it back with every default filled in."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What the job holds while it runs, for the whole gang. None means: as the profile says (``auto``)."""

    gpus: int = 1
    cpus: float | None = None
    memory_bytes: int | None = None
    disk_bytes: int = 2 * 1024**3


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """``priority`` 0 to 100, larger first where the policy looks at it; ``max_duration_s`` None for no limit."""

    priority: int = 50
    preemptible: bool = True
    max_duration_s: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """``grace_s``: time to write a checkpoint when asked to stop, seconds."""

    grace_s: float = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """``max``: how often the job starts again after a failure of its own."""

    max: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """``total_steps``: mini-batches of the whole training; None when unknown."""

    total_steps: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One job as its owner submitted it."""

    name: str
    queue: str
    command: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)
    env: dict[str, str] = field(default_factory=dict)
    resources: Resources = field(default_factory=Resources)
    schedule: Schedule = field(default_factory=Schedule)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    retry: Retry = field(default_factory=Retry)
    progress: Progress = field(default_factory=Progress)
    profile: str = ""
    labels: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def parse(data: object) -> "JobSpec":
        """Return the spec in ``data``. Raises SpecInvalid with one entry per bad field."""
        raise NotImplementedError

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data with all defaults; ``parse`` gives the same spec back."""
        raise NotImplementedError


def job_spec_schema() -> dict[str, Any]:
    """Return the JSON Schema of a spec."""
    raise NotImplementedError
