"""Builds of environments on one machine: the real keeper on a real folder, simulated builders in its processes' place.

A builder lays the Python of its environment first and says that it is whole last, as uv and the real builder do; what
it is to make stands in the requirements of the job.
"""

import errno
import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

from agents.core.environment import venv_path
from agents.core.records import ENVIRONMENTS_DIR, Launch
from agents.environments.keeper import BuildSettings, Keeper
from agents.environments.store import MADE, ORDER, STATE, EnvironmentStore, state_json
from agents.protocol.environments import EnvironmentReport
from agents.protocol.ports import SpawnRequest
from tests.faults.virtual import Violation, VirtualTime

if TYPE_CHECKING:
    from tests.faults.machine import Machine

TAG = "0123456789abcdef"
PYTHON = "3.11"
BYTES = 100  # of an environment
MOST_BYTES = 250  # two of them, so that a third takes the place of one
BUILD_S = (3.0, 40.0)
LOST_INDEX_FRAC = 0.3  # of the builds while faults fire
UNKNOWN = "nosuchthing"  # the requirement that no index has
SENTENCE = "Because nosuchthing was not found, your requirements are unsatisfiable."


@dataclass(slots=True)
class Builder:
    """One builder's process; the folder is locked as long as it lives."""

    name: str
    folder: Path
    lock_fd: int
    time: VirtualTime
    is_alive: bool = True

    def die(self) -> None:
        """Go without a word; the system frees the lock."""
        if self.is_alive:
            self.is_alive = False
            os.close(self.lock_fd)

    def lay_python(self) -> None:
        """Make what a job looks for before it starts."""
        if self.is_alive:
            (self.folder / "venv" / "bin").mkdir(parents=True)
            (self.folder / "venv" / "bin" / "python").touch()

    def say(self, name: str, report: EnvironmentReport) -> None:
        """Write how it stands, and end."""
        path = self.folder / name
        path.write_text(json.dumps(state_json(report)))
        os.utime(path, (self.time.now_s, self.time.now_s))  # the least recently used leaves the cache first
        self.die()


@dataclass(slots=True)
class Builds:
    """Environments of one machine, and the processes that build them.

    Attributes:
        machine: Whose builds they are.
        root: Its folder of the agent's state.
        builders: That were started and may live.
        is_index_flaky: Some builds find no index.
        in_use: Folders that attempts began in, by attempt.
    """

    machine: "Machine"
    root: Path
    rng: Random
    builders: list[Builder] = field(default_factory=list)
    is_index_flaky: bool = True
    in_use: dict[str, Path] = field(default_factory=dict)

    def keeper(self) -> Keeper:
        """Return the keeper of an agent that begins: it knows what is on the disk."""
        settings = BuildSettings(
            uv="uv",
            python="python",
            base="",
            variables={},
            timeout_s=600.0,
            memory_bytes=2**30,
            disk_bytes=2**30,
            cache_bytes=MOST_BYTES,
            first_uid=None,
        )
        store = EnvironmentStore(self.root / ENVIRONMENTS_DIR, tag=TAG)
        return Keeper(store, settings, builders=self, request=_request)

    def start_with(self, request: SpawnRequest, *, stdin: int) -> object:
        """Start a builder that holds the lock. Raises OSError on a full disk, Violation E2 beside a living one."""
        name = request.attempt_id
        if any(builder.is_alive and builder.name == name for builder in self.builders):
            raise Violation("E2", f"{name} is built twice at once on {self.machine.name}")
        if self.machine.is_disk_full:
            raise OSError(errno.ENOSPC, "No space left on device")
        builder = Builder(name, Path(request.cwd), os.dup(stdin), self.machine.time)
        self.builders = [one for one in self.builders if one.is_alive] + [builder]
        seconds = self.rng.uniform(*BUILD_S)
        self.machine.trace.add("builder", self.machine.name, name[:8], f"{seconds:.1f}")
        self.machine.time.after(seconds / 2, builder.lay_python)
        self.machine.time.after(seconds, lambda: self._finish(builder))
        return builder

    def end_all(self, attempt_id: str) -> int:
        """Kill the builders of a folder; return how many there were."""
        found = [one for one in self.builders if one.is_alive and one.name == attempt_id]
        for builder in found:
            builder.die()
        return len(found)

    def power_off(self) -> None:
        """End every builder."""
        for builder in self.builders:
            builder.die()

    def _finish(self, builder: Builder) -> None:
        if not builder.is_alive:
            return
        if self.machine.is_disk_full:
            builder.die()
            return
        if not (builder.folder / ORDER).exists():
            raise Violation("E2", f"{builder.name} was removed under its builder on {self.machine.name}")
        order = json.loads((builder.folder / ORDER).read_text())
        report = EnvironmentReport(digest=order["digest"], ask=order["ask"], state="failed", detail="no index answers")
        if self.is_index_flaky and self.rng.random() < LOST_INDEX_FRAC:
            self.machine.trace.fault("no_index", self.machine.name)
            builder.say(STATE, _passing(report))
        elif any(UNKNOWN in text for text in order["files"].values()):
            builder.say(STATE, EnvironmentReport(digest=report.digest, ask=report.ask, state="failed", detail=SENTENCE))
        else:
            builder.say(MADE, EnvironmentReport(digest=report.digest, ask=report.ask, state="ready", num_bytes=BYTES))

    def begins(self, launch: Launch) -> str:
        """Note that an attempt begins in its environment; return why it cannot. Raises Violation where it is not whole.

        A job looks for its Python alone, so one that is half built would be taken for whole.
        """
        if not launch.order.environment:
            return ""
        folder = Path(venv_path(str(self.root), launch.order.environment, TAG)).parent
        if not (folder / "venv" / "bin" / "python").exists():
            return "The environment of the job is no longer on this server."
        if not (folder / MADE).exists():
            raise Violation("E1", f"{launch.order.attempt_id} begins in half an environment on {self.machine.name}")
        self.in_use[launch.order.attempt_id] = folder
        return ""

    def check(self, running: set[str]) -> None:
        """E2: what attempts run in is there, whole."""
        self.in_use = {attempt: folder for attempt, folder in self.in_use.items() if attempt in running}
        for attempt_id, folder in self.in_use.items():
            if not (folder / MADE).exists():
                raise Violation("E2", f"the environment of {attempt_id} was removed under it on {self.machine.name}")


def _request(name: str, folder: str) -> SpawnRequest:
    return SpawnRequest(attempt_id=name, argv=(folder,), env={}, cwd=folder)


def _passing(report: EnvironmentReport) -> EnvironmentReport:
    return EnvironmentReport(
        digest=report.digest, ask=report.ask, state="failed", detail=report.detail, is_passing=True
    )
