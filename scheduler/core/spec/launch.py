"""How a job's command is started: its words, and whether once, once on each server, or once for every GPU."""

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from scheduler.core.model.errors import FieldError
from scheduler.core.spec.reading import FieldReader, quoted


class LaunchPer(StrEnum):
    """For what one process of the command is started."""

    JOB = "job"  # once, with all GPUs, on one server
    SERVER = "server"  # once on each server of the gang, with all its GPUs there; torchrun and the like start the ranks
    GPU = "gpu"  # once for every GPU, each a rank


PERS = tuple(per.value for per in LaunchPer)


# Programs that start the ranks of a server themselves.
LAUNCHERS = frozenset({"torchrun", "accelerate", "deepspeed", "mpirun", "mpiexec", "horovodrun"})
_MODULES = frozenset({"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "deepspeed"})


class Asked(Protocol):
    """What the resources of a job say about its gang."""

    @property
    def gpus(self) -> int:
        """Return the GPUs of a rigid job."""

    @property
    def max_servers(self) -> int:
        """Return the most servers that the GPUs may be spread over."""

    @property
    def is_elastic(self) -> bool:
        """Return whether its share may change while it runs."""


@dataclass(frozen=True, slots=True)
class StoredResources:
    """What the resources of a stored spec say, also of one that has no bounds or servers yet."""

    stored: Mapping[str, Any]

    @property
    def gpus(self) -> int:
        """Return the GPUs of a rigid job."""
        return int(self.stored["gpus"])

    @property
    def max_servers(self) -> int:
        """Return the most servers that the GPUs may be spread over."""
        return int(self.stored.get("max_servers") or 1)

    @property
    def is_elastic(self) -> bool:
        """Return whether its share may change while it runs."""
        return any((self.stored.get(name) or self.gpus) != self.gpus for name in ("min_gpus", "max_gpus"))


def implied_per(asked: Asked) -> LaunchPer:
    """Return how a job starts that does not say it: for every GPU where it may use several servers or is elastic."""
    return LaunchPer.GPU if asked.max_servers > 1 or asked.is_elastic else LaunchPer.JOB


def stored_per(spec: Mapping[str, Any]) -> LaunchPer:
    """Return how a stored spec starts; one of an early version does not say it."""
    said = (spec.get("launch") or {}).get("per")
    return LaunchPer(said) if said is not None else implied_per(StoredResources(spec["resources"]))


def unsaid_errors(data: object, *, command: Sequence[str], per: LaunchPer) -> list[FieldError]:
    """Return the error of a new job that does not say how often a program is started that starts ranks itself.

    Args:
        data: As it was submitted.
        command: Its words.
        per: How often it would start.
    """
    launch = data.get("launch") if isinstance(data, Mapping) else None
    is_said = isinstance(launch, Mapping) and launch.get("per") is not None
    name = launcher_of(command)
    if is_said or not name or per is not LaunchPer.GPU:
        return []
    detail = (
        f"Say how often {name} is started: launch: {{per: server}} once on each server, where it starts a process for "
        "each GPU itself; launch: {per: gpu} once for every GPU."
    )
    return [FieldError(pointer="/launch/per", code="required", detail=detail)]


def unsplit_errors(command: Sequence[str]) -> list[FieldError]:
    """Return the error of a new job whose command is a whole line in one word: no program has such a name."""
    if len(command) != 1 or len(command[0].split()) < 2:
        return []
    try:
        words = shlex.split(command[0])
    except ValueError:
        words = command[0].split()
    detail = f"Write the program and each of its arguments as a word of its own: {json.dumps(words)}."
    return [FieldError(pointer="/command/0", code="characters", detail=detail)]


def launcher_of(command: Sequence[str]) -> str:
    """Return the name of the program that starts ranks in a command such as ``torchrun``; empty for none."""
    program = command[0].rpartition("/")[2] if command else ""
    if program in LAUNCHERS:
        return program
    words = list(command[1:])
    module = words[words.index("-m") + 1] if program.startswith("python") and "-m" in words[:-1] else ""
    return module if module in _MODULES else ""


def launch_words(per: LaunchPer, asked: Asked) -> str:
    """Return how often the command starts, in words that go after "it starts"."""
    most_servers = min(asked.gpus, asked.max_servers)
    if per is LaunchPer.GPU and (asked.gpus > 1 or asked.is_elastic):
        return "once for every GPU" + ("" if asked.is_elastic else f", {asked.gpus} processes")
    if per is LaunchPer.SERVER and most_servers > 1:
        return f"once on each of up to {most_servers} servers"
    return "once, with all its GPUs on one server" if asked.gpus > 1 else "once"


def read_launch(reader: FieldReader, value: object, asked: Asked) -> LaunchPer | None:
    """Return how the command starts; None where that is what its GPUs and servers imply."""
    data = reader.mapping(value, "/launch", label="launch", keys=("per",))
    per = data.get("per")
    if per is None:
        return None
    if not isinstance(per, str) or per not in PERS:
        right = "job (once), server (once on each server) or gpu (once for every GPU)"
        reader.bad("/launch/per", "choice", f"launch per must be {right}, not {quoted(per)}.")
        return None
    found = LaunchPer(per)
    if asked.is_elastic and found is not LaunchPer.GPU:
        right = "Write gpu, or leave min_gpus and max_gpus out."
        reader.bad(
            "/launch/per", "elastic", f"An elastic job starts once for every GPU, so that it can change. {right}"
        )
    elif found is LaunchPer.JOB and asked.max_servers > 1 and asked.gpus > 1:
        right = "Write server (once on each) or gpu (once for every GPU), or set max_servers to 1."
        reader.bad("/launch/per", "servers", f"launch per job starts the command once, on one server. {right}")
    return None if found is implied_per(asked) else found
