"""How many cores and bytes a job can use: what its owner asked for, else what its profile says.

The least cores, then the least memory, that reach the best measured speed; unknown is +inf, which the core reads as the
GPU-proportional share.
Source: Mohan et al., "Synergy", OSDI 2022, demand vector of a job.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from scheduler.core.spec_units import parse_size_bytes
from scheduler.models import Profile

# A speed this close to the best one counts as full: measurements scatter by about as much.
FULL_SPEED_FRAC = 0.99
# A running job whose memory nobody asked for by number keeps room for its peak and a quarter more.
PEAK_ROOM = 1.25


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Cores and bytes of one whole gang: ``demand`` gives full speed (+inf when unknown), ``min`` is insisted on."""

    demand_cpus: float
    demand_memory_bytes: float
    min_cpus: float
    min_memory_bytes: float


def profile_demands(profile_pks: Iterable[int]) -> dict[int, tuple[float, float]]:
    """Return (cores, bytes) per GPU that reach full speed, by profile."""
    demands = {}
    for profile in Profile.objects.filter(pk__in=set(profile_pks)):
        cpus, memory = list(profile.cpus_per_gpu), list(profile.memory_bytes_per_gpu)
        speed = np.array(profile.relative_speed, dtype=np.float64)
        if not cpus or not memory or speed.shape != (len(cpus), len(memory)):
            continue
        row, column = np.argwhere(speed >= FULL_SPEED_FRAC * speed.max())[0]  # row-major: least cores first
        demands[profile.pk] = (float(cpus[row]), float(memory[column]))
    return demands


def job_demand(
    *,
    num_gpus: int,
    asked_cpus: object,
    asked_memory: object,
    per_gpu: tuple[float, float] | None,
    held_memory_bytes: int,
    peak_memory_bytes: int | None,
) -> Demand:
    """Return the demand of one job.

    Args:
        num_gpus: Size of the gang.
        asked_cpus: ``resources.cpus`` of the stored spec: a number or ``auto``.
        asked_memory: ``resources.memory`` of the stored spec: a size with its unit or ``auto``.
        per_gpu: What its profile says, or None.
        held_memory_bytes: What it holds now; 0 when it does not run.
        peak_memory_bytes: The most that its present attempt used.
    """
    cpus, memory = per_gpu or (math.inf, math.inf)
    min_cpus = float(asked_cpus) if isinstance(asked_cpus, int | float) else 0.0
    if isinstance(asked_memory, str) and asked_memory != "auto":
        min_memory = demand_memory = float(parse_size_bytes(asked_memory))
    else:
        # Its process tree is ended when it uses more than granted: never grant less than it was seen to use.
        min_memory = min(float(held_memory_bytes), (peak_memory_bytes or 0) * PEAK_ROOM)
        demand_memory = max(min_memory, memory * num_gpus)
    return Demand(
        demand_cpus=min_cpus or cpus * num_gpus,
        demand_memory_bytes=demand_memory,
        min_cpus=min_cpus,
        min_memory_bytes=min_memory,
    )
