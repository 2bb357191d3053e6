"""Parse and check the job spec that a user submits; write it back with every default filled in.

Equal jobs give equal stored specs, whether they came as YAML, JSON or a form. What depends on the cluster (does the
queue exist, is any server large enough) is checked by ``scheduler/services/jobs/check.py``.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from scheduler.core.model.errors import FieldError, SpecInvalid
from scheduler.core.spec import limits as limit
from scheduler.core.spec.array import JobArray, read_array
from scheduler.core.spec.code import Code, read_code
from scheduler.core.spec.depends_on import Dependency, read_depends_on
from scheduler.core.spec.env import SecretUse, env_json, read_env
from scheduler.core.spec.launch import LaunchPer, implied_per, read_launch
from scheduler.core.spec.python import Python, read_python
from scheduler.core.spec.reading import FieldReader, pointer_step, quoted
from scheduler.core.spec.schema import job_spec_schema
from scheduler.core.spec.stopping import Checkpoint, Schedule, read_checkpoint, read_schedule
from scheduler.core.spec.units import format_duration, format_size

KEYS = (
    "apiVersion",
    "name",
    "queue",
    "command",
    "code",
    "files",
    "python",
    "env",
    "resources",
    "launch",
    "schedule",
    "checkpoint",
    "retry",
    "progress",
    "profile",
    "labels",
    "array",
    "depends_on",
)

RESOURCE_KEYS = ("gpus", "min_gpus", "max_gpus", "max_servers", "cpus", "memory", "disk")


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """What the job holds while it runs, for the whole gang. None is ``auto``: as much as its profile can use.

    Attributes:
        gpus: Of a rigid job, all or none; of an elastic one, those that ``cpus`` and ``memory`` are meant for.
        min_gpus, max_gpus: Bounds of an elastic job's share; None where that is ``gpus``, both for a rigid job.
        max_servers: Most servers that the GPUs may be spread over.
        cpus, memory_bytes: Of all servers together.
        disk_bytes: Of the working directory.
    """

    gpus: int = 1
    min_gpus: int | None = None
    max_gpus: int | None = None
    max_servers: int = 1
    cpus: float | None = None
    memory_bytes: int | None = None
    disk_bytes: int = limit.DEFAULT_DISK_BYTES

    @property
    def is_elastic(self) -> bool:
        """Return whether its share may change while it runs."""
        return self.min_gpus is not None or self.max_gpus is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """``max``: how often the job starts again after a failure of its own."""

    max: int = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """What the job reports, and what follows from it.

    Attributes:
        total_steps: Mini-batches of the whole training; None when unknown.
        stall_s: Once it has reported progress it is ended when none follows for so long; None for never.
        early_stop: Whether it is complete as soon as its loss has stopped falling.
    """

    total_steps: int | None = None
    stall_s: float | None = None
    early_stop: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSpec:
    """One job as its owner submitted it.

    Attributes:
        name: Shown everywhere; need not be unique.
        queue: Name of a leaf queue.
        command: Program and arguments; never a shell line.
        code: The folder that it starts in; None for an empty one.
        files: Text files laid into the working directory, by plain name.
        python: The environment that it runs in; None for the Python of the server as it is.
        env: Environment of the command: plain values.
        secrets, said_plain: The rest of the environment, see ``env.py``.
        launch_per: How often the command is started; None where that is what its resources imply.
        profile: Name of a measured profile; empty for unknown.
        array: Many jobs of this spec; None for one.
        depends_on: What has to end before it starts.
    """

    name: str
    queue: str
    command: tuple[str, ...]
    code: Code | None = None
    files: dict[str, str] = field(default_factory=dict)
    python: Python | None = None
    env: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, SecretUse] = field(default_factory=dict)
    said_plain: frozenset[str] = frozenset()
    resources: Resources = field(default_factory=Resources)
    launch_per: LaunchPer | None = None
    schedule: Schedule = field(default_factory=Schedule)
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    retry: Retry = field(default_factory=Retry)
    progress: Progress = field(default_factory=Progress)
    profile: str = ""
    labels: dict[str, str] = field(default_factory=dict)
    array: JobArray | None = None
    depends_on: tuple[Dependency, ...] = ()

    @property
    def num_jobs(self) -> int:
        """Return how many jobs are made of it."""
        return 1 if self.array is None else len(self.array.indexes)

    @property
    def starts_per(self) -> LaunchPer:
        """Return how often the command is started."""
        return self.launch_per or implied_per(self.resources)

    @staticmethod
    def parse(data: object) -> "JobSpec":
        """Return the spec in plain JSON data.

        Raises:
            SpecInvalid: With one entry per bad field.
        """
        spec, errors = JobSpec.read(data)
        if errors:
            raise SpecInvalid(errors)
        return spec

    @staticmethod
    def read(data: object) -> tuple["JobSpec", list[FieldError]]:
        """Return the spec with a default in place of each bad field, and the bad fields.

        For callers that check more (queue, capacity) and want to show everything that is wrong at once.
        """
        reader = FieldReader()
        if not isinstance(data, Mapping):
            reader.bad("", "type", f"A job is a mapping of keys to values, not {quoted(data)}.")
            return JobSpec(name="", queue="", command=()), reader.errors
        if "kind" in data and "spec" in data:
            detail = f"This is an object of Kubernetes, {quoted(data['kind'])}. `clusterweb import` makes a job of it."
            reader.bad("/kind", "unknown", detail)  # alone: each of its keys is wrong here
            return JobSpec(name="", queue="", command=()), reader.errors
        read = reader.mapping(data, "", label="a job", keys=KEYS, elsewhere=_parts_of_keys())
        return _read_job(reader, read), reader.errors

    def to_json(self) -> dict[str, Any]:
        """Return plain JSON data with all defaults; ``parse`` gives the same spec back."""
        resources = self.resources
        return {
            "apiVersion": limit.API_VERSION,
            "name": self.name,
            "queue": self.queue,
            "command": list(self.command),
            "code": None if self.code is None else self.code.to_json(),
            "files": dict(sorted(self.files.items())),
            "python": None if self.python is None else self.python.to_json(),
            "env": env_json(self.env, self.secrets, self.said_plain),
            "resources": {
                "gpus": resources.gpus,
                "min_gpus": resources.gpus if resources.min_gpus is None else resources.min_gpus,
                "max_gpus": resources.gpus if resources.max_gpus is None else resources.max_gpus,
                "max_servers": resources.max_servers,
                "cpus": "auto" if resources.cpus is None else _plain_number(resources.cpus),
                "memory": "auto" if resources.memory_bytes is None else format_size(resources.memory_bytes),
                "disk": format_size(resources.disk_bytes),
            },
            "launch": {"per": self.starts_per.value},
            "schedule": self.schedule.to_json(),
            "checkpoint": self.checkpoint.to_json(),
            "retry": {"max": self.retry.max},
            "progress": {
                "total_steps": self.progress.total_steps,
                "stall": None if self.progress.stall_s is None else format_duration(self.progress.stall_s),
                "early_stop": self.progress.early_stop,
            },
            "profile": self.profile,
            "labels": dict(sorted(self.labels.items())),
            "array": None if self.array is None else self.array.text,
            "depends_on": [{one.subject: one.until.value} for one in self.depends_on],
        }


def _read_job(reader: FieldReader, data: Mapping[str, object]) -> JobSpec:
    """Read every field; a bad one is an entry of the reader and has its default in the spec."""
    _read_version(reader, data.get("apiVersion"))
    environment = read_env(reader, data.get("env"))
    return JobSpec(
        name=_read_required(reader, data.get("name"), "/name", "name", limit.NAME_CHARS, names=True),
        queue=_read_required(reader, data.get("queue"), "/queue", "queue", limit.QUEUE_CHARS),
        command=_read_command(reader, data.get("command")),
        code=read_code(reader, data.get("code")),
        files=_read_files(reader, data.get("files")),
        python=read_python(reader, data.get("python")),
        env=environment.env,
        secrets=environment.secrets,
        said_plain=environment.said_plain,
        resources=(resources := _read_resources(reader, data.get("resources"))),
        launch_per=read_launch(reader, data.get("launch"), resources),
        schedule=read_schedule(reader, data.get("schedule")),
        checkpoint=read_checkpoint(reader, data.get("checkpoint")),
        retry=_read_retry(reader, data.get("retry")),
        progress=_read_progress(reader, data.get("progress")),
        profile=_read_profile(reader, data.get("profile")),
        labels=_read_labels(reader, data.get("labels")),
        array=read_array(reader, data.get("array")),
        depends_on=read_depends_on(reader, data.get("depends_on")),
    )


@lru_cache(maxsize=1)
def _parts_of_keys() -> Mapping[str, str]:
    """Return by key the part of a spec that it stands in, for those that are often written beside it."""
    properties = job_spec_schema()["properties"]
    return {key: part for part in ("schedule", "resources") for key in properties[part]["properties"]}


def _read_version(reader: FieldReader, value: object) -> None:
    if value is None:
        reader.bad("/apiVersion", "required", f"apiVersion is required: {limit.API_VERSION}.")
    elif value != limit.API_VERSION:
        reader.bad("/apiVersion", "version", f"apiVersion must be {limit.API_VERSION}, not {quoted(value)}.")


def _read_required(
    reader: FieldReader, value: object, pointer: str, label: str, longest: int, *, names: bool = False
) -> str:
    if value is None or value == "":
        reader.bad(pointer, "required", f"{label} is required.")
        return ""
    pattern = limit.PLAIN_NAME if names else None
    right = "begin with a letter or digit and hold only letters, digits, '.', '_' and '-'"
    return reader.text(value, pointer, label=label, longest_bytes=longest, pattern=pattern, right=right)


def _read_command(reader: FieldReader, value: object) -> tuple[str, ...]:
    example = '["python", "train.py"]'
    if value is None or value == []:
        reader.bad("/command", "required", f"command is required: a list of words such as {example}.")
        return ()
    if not isinstance(value, list | tuple):
        reader.bad("/command", "type", f"command must be a list of words such as {example}, not {quoted(value)}.")
        return ()
    if len(value) > limit.COMMAND_ITEMS:
        most = limit.COMMAND_ITEMS
        reader.bad("/command", "length", f"command may have at most {most} words. It has {len(value)}.")
        return ()
    words = tuple(
        reader.text(item, f"/command/{at}", label=f"command word {at + 1}", longest_bytes=limit.COMMAND_ITEM_BYTES)
        for at, item in enumerate(value)
    )
    if value[0] == "":
        reader.bad("/command/0", "required", "command word 1 is the program to run and may not be empty.")
    reader.total("/command", "command", words, limit.COMMAND_BYTES)
    return words


def _read_files(reader: FieldReader, value: object) -> dict[str, str]:
    data = reader.mapping(value, "/files", label="files", keys=None)
    reader.count("/files", "files", data, limit.FILES)
    files = {}
    for name, content in data.items():
        pointer = "/files" + pointer_step(name)
        if not limit.PLAIN_NAME.fullmatch(name):
            detail = f"{quoted(name)} cannot be a file name: use 1 to 80 letters, digits, '.', '_' and '-', no folder."
            reader.bad(pointer, "characters", detail)
            continue
        files[name] = reader.text(content, pointer, label=f"file {name}", longest_bytes=limit.FILES_BYTES)
    reader.total("/files", "files", files.values(), limit.FILES_BYTES)
    return files


def _read_labels(reader: FieldReader, value: object) -> dict[str, str]:
    data = reader.mapping(value, "/labels", label="labels", keys=None)
    reader.count("/labels", "labels", data, limit.LABELS)
    labels = {}
    for name, content in data.items():
        pointer = "/labels" + pointer_step(name)
        if not limit.LABEL_NAME.fullmatch(name):
            detail = f"{quoted(name)} cannot be a label: use 1 to 63 letters, digits, '.', '_', '/' and '-'."
            reader.bad(pointer, "characters", detail)
        else:
            labels[name] = reader.text(content, pointer, label=f"label {name}", longest_bytes=limit.LABEL_CHARS)
    return labels


def _read_resources(reader: FieldReader, value: object) -> Resources:
    data = reader.mapping(value, "/resources", label="resources", keys=RESOURCE_KEYS)
    cpus, memory = data.get("cpus"), data.get("memory")
    gpus = reader.whole(data.get("gpus"), "/resources/gpus", "GPUs", limit.GPUS, default=1)
    return Resources(
        gpus=gpus,
        min_gpus=_read_bound(reader, data, "min_gpus", (limit.GPUS[0], gpus), gpus),
        max_gpus=_read_bound(reader, data, "max_gpus", (gpus, limit.GPUS[1]), gpus),
        max_servers=reader.whole(
            data.get("max_servers"), "/resources/max_servers", "max_servers", limit.SERVERS, default=1
        ),
        cpus=None
        if cpus in (None, "auto")
        else reader.number(cpus, "/resources/cpus", label="cpus", limits=limit.CPUS, default=1.0, whole=False),
        memory_bytes=None
        if memory in (None, "auto")
        else reader.size(memory, "/resources/memory", "memory", limit.MEMORY_BYTES, default=64 * 2**30),
        disk_bytes=reader.size(
            data.get("disk"), "/resources/disk", "disk", limit.DISK_BYTES, default=limit.DEFAULT_DISK_BYTES
        ),
    )


def _read_bound(
    reader: FieldReader, data: Mapping[str, object], name: str, limits: tuple[int, int], gpus: int
) -> int | None:
    bound = reader.whole(data.get(name), f"/resources/{name}", name, limits, default=gpus)
    return None if bound == gpus else bound


def _read_retry(reader: FieldReader, value: object) -> Retry:
    data = reader.mapping(value, "/retry", label="retry", keys=("max",))
    return Retry(max=reader.whole(data.get("max"), "/retry/max", "retry max", limit.RETRIES, default=4))


def _read_progress(reader: FieldReader, value: object) -> Progress:
    data = reader.mapping(value, "/progress", label="progress", keys=("total_steps", "stall", "early_stop"))
    steps, stall, early_stop = data.get("total_steps"), data.get("stall"), data.get("early_stop")
    return Progress(
        total_steps=None
        if steps is None
        else reader.whole(steps, "/progress/total_steps", "total_steps", limit.STEPS, default=1),
        stall_s=None
        if stall is None
        else reader.duration(stall, "/progress/stall", "stall", limit.STALL_S, default=3600.0),
        early_stop=False
        if early_stop is None
        else reader.flag(early_stop, "/progress/early_stop", label="early_stop", default=False),
    )


def _read_profile(reader: FieldReader, value: object) -> str:
    if value is None:
        return ""
    return reader.text(value, "/profile", label="profile", longest_bytes=limit.NAME_CHARS)


def _plain_number(value: float) -> int | float:
    """Return 4 for 4.0, so that ``cpus: 4`` and ``cpus: 4.0`` are one spec."""
    return int(value) if value == int(value) else value


__all__ = ["Checkpoint", "JobSpec", "Progress", "Resources", "Retry", "Schedule", "job_spec_schema"]
