"""Save the state of a replay to a file and load it: interrupted or not, the outcome is the same."""

import hashlib
import json
import math
import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path

import numpy as np

from scheduler.core.model.changes import placements
from scheduler.core.model.tables import Placements
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.state.columns import Columns
from scheduler.simulator.state.waits import WaitTimes
from scheduler.simulator.state.world import World

_COLUMNS = (
    *("since_s", "ready_s", "rate", "held_gpus", "work_s", "attained_gpu_s", "executed_s", "waited_s", "held_at_s"),
    *("service_gpu_s", "queueing_s", "lost_s", "unsaved_s", "first_start_s", "end_s", "next_s", "fail_after_s"),
    *("attempts", "preemptions", "moves", "reconfigurations", "arrived", "ended", "joined_active_s", "left_active_s"),
    "lent",
)
_GIVEN = (
    *("arrival_s", "run_s", "num_gpus", "queue", "max_servers", "owner", "priority", "weight"),
    *("min_gpus", "max_gpus", "min_cpus", "min_memory_bytes", "profile"),
)
_HELD = ("job", "server", "num_gpus", "cpus", "memory_bytes")


# Digests by the part of a replay that they cover.
Setting = Mapping[str, str]


class UnusableStateError(ValueError):
    """A file does not hold the state of a replay, or that of another replay."""


@dataclass(frozen=True, slots=True, kw_only=True)
class States:
    """Files with the state of a replay.

    Attributes:
        save_to: File to which the state is written, at the end and every ``save_every_s`` seconds of CPU time; None for
            none.
        continue_from: File with the state to go on from; None to begin before the first arrival.
    """

    save_to: Path | None = None
    save_every_s: float = math.inf
    continue_from: Path | None = None


def setting_of(replay: Replay, columns: Columns) -> Setting:
    """Return digests of all that decides a replay; a saved state fits replays with the same digests."""
    failures = [(row, failure) for row, job in enumerate(replay.jobs) for failure in job.failures]
    held = [
        (row, job.number, job.after, job.array, job.array_most)
        for row, job in enumerate(replay.jobs)
        if job.after or job.array_most
    ]
    costs = (replay.round_s, replay.restart_s, replay.leave_s, replay.checkpoint_s, replay.costs, replay.retries)
    return {
        "workload": _digest([*(getattr(columns, name) for name in _GIVEN), columns.profiles, failures, held]),
        "cluster": _digest(
            [getattr(table, field.name) for table in (replay.servers, replay.queues) for field in fields(table)]
        ),
        "configuration": _digest([replay.config, *costs, replay.keep_reasons]),
    }


def _digest(parts: Iterable[object]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(np.ascontiguousarray(part).tobytes())
        else:
            # The text of other objects holds their address, which is another in every process.
            known = is_dataclass(part) or isinstance(part, int | float | list | tuple | None)
            digest.update((repr(part) if known else type(part).__qualname__).encode())
        digest.update(b"|")
    return digest.hexdigest()


def save(
    path: Path,
    world: World,
    *,
    setting: Setting,
    waits: WaitTimes | None,
    round_at_s: float,
    planned: int,
    digest: bytes,
) -> None:
    """Write the state; the next round is at ``round_at_s``. The file appears whole or not at all."""
    columns, held = world.columns, placements(world.seats)
    arrays = {name: getattr(columns, name) for name in _COLUMNS}
    arrays |= {f"held_{name}": getattr(held, name) for name in _HELD}
    arrays |= waits.state() if waits else {}
    arrays["back"] = np.array(world.to_join, dtype=np.float64).reshape(-1, 2)
    numbers = {
        "setting": dict(setting),
        "now_s": world.now_s,
        "round_at_s": round_at_s,
        "planned": planned,
        "digest": digest.hex(),
        "active_s": columns.active_s,
        "counted_s": columns.counted_s,
        "num_active": columns.num_active,
    }
    partial = path.with_name(path.name + ".partial")
    with partial.open("wb") as file:
        np.savez(file, numbers=np.array(json.dumps(numbers)), **arrays)
    partial.replace(path)


def load(path: Path, world: World, *, setting: Setting, waits: WaitTimes | None) -> tuple[float, int, bytes]:
    """Bring the world to the saved state; return the time of the next round, rounds planned, and the digest.

    Raises:
        UnusableStateError: If the file is no state, or that of another workload, cluster or configuration.
    """
    try:
        with np.load(path, allow_pickle=False) as file:
            arrays = dict(file)
            numbers = json.loads(str(arrays["numbers"]))
    except OSError as error:
        raise UnusableStateError(f"{path} cannot be read: {error.strerror or error}") from None
    except (ValueError, KeyError, EOFError, zipfile.BadZipFile):
        raise UnusableStateError(f"{path} is not the state of a replay") from None
    for name, digest in setting.items():
        if numbers["setting"].get(name) != digest:
            raise UnusableStateError(f"{path} is the state of a replay with another {name}")
    columns = world.columns
    for name in _COLUMNS:
        getattr(columns, name)[:] = arrays[name]
    for name, kept in waits.state().items() if waits else ():
        kept[:] = arrays[name]
    held = Placements(**{name: arrays[f"held_{name}"] for name in _HELD})
    to_join = [(at_s, int(row)) for at_s, row in arrays["back"].tolist()]
    columns.active_s, columns.counted_s = numbers["active_s"], numbers["counted_s"]
    columns.num_active = numbers["num_active"]
    world.restore(numbers["now_s"], held, to_join)
    return numbers["round_at_s"], numbers["planned"], bytes.fromhex(numbers["digest"])
