"""Writes the state of a replay to a file and takes it up again: interrupted or not, the outcome is the same."""

import json
from pathlib import Path

import numpy as np

from scheduler.core.changes import placements
from scheduler.core.tables import Placements
from scheduler.simulator.world import World

_COLUMNS = (
    *("since_s", "ready_s", "rate", "held_gpus", "work_s", "attained_gpu_s", "executed_s", "waited_s", "held_at_s"),
    *("service_gpu_s", "queueing_s", "lost_s", "unsaved_s", "first_start_s", "end_s", "next_s", "fail_after_s"),
    *("attempts", "preemptions", "reconfigurations", "arrived", "ended", "joined_active_s", "left_active_s"),
)
_HELD = ("job", "server", "num_gpus", "cpus", "memory_bytes")


def save(path: Path, world: World, *, round_at_s: float, planned: int, digest: bytes) -> None:
    """Write the state; the next round is at ``round_at_s``. The file appears whole or not at all."""
    columns, held = world.columns, placements(world.seats)
    arrays = {name: getattr(columns, name) for name in _COLUMNS}
    arrays |= {f"held_{name}": getattr(held, name) for name in _HELD}
    arrays["back"] = np.array(world.back, dtype=np.float64).reshape(-1, 2)
    numbers = {
        "jobs": len(columns),
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


def load(path: Path, world: World) -> tuple[float, int, bytes]:
    """Bring the world to the saved state; return the time of the next round, rounds planned, and the digest.

    Raises:
        ValueError: If the file belongs to another workload.
    """
    columns = world.columns
    with np.load(path, allow_pickle=False) as file:
        numbers = json.loads(str(file["numbers"]))
        if numbers["jobs"] != len(columns):
            raise ValueError(f"{path} is the state of {numbers['jobs']} jobs, the workload has {len(columns)}")
        for name in _COLUMNS:
            getattr(columns, name)[:] = file[name]
        held = Placements(**{name: file[f"held_{name}"] for name in _HELD})
        back = [(at_s, int(row)) for at_s, row in file["back"].tolist()]
    columns.active_s, columns.counted_s = numbers["active_s"], numbers["counted_s"]
    columns.num_active = numbers["num_active"]
    world.restore(numbers["now_s"], held, back)
    return numbers["round_at_s"], numbers["planned"], bytes.fromhex(numbers["digest"])
