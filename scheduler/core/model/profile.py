"""The speed of a job on what it holds: scaling x sensitivity x locality x interference.

Every factor is 1 when the profile does not know it. Speed 1 is the job's speed with the GPUs it asked for, their
proportional share of cores and memory, on as few servers as possible, alone on its GPUs.
"""

import math
from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

# Weight of tensor skew in the slow-down of a gang spread over servers, and the skew that does not yet matter.
_SKEW_WEIGHT = 1.5
_SKEW_FREE = 0.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """Measured speed of a kind of job. Empty fields are unknown.

    Attributes:
        cpus_per_gpu: (a,) grid of cores per GPU, ascending.
        memory_bytes_per_gpu: (b,) grid of bytes per GPU, ascending.
        relative_speed: (a, b) speed at the grid points; 1 at the GPU-proportional share.
        scaling: (GPUs, speed relative to one GPU), ascending by GPUs.
        skew: Largest tensor as a share of the model.
        spread: (GPUs on each server on average, speed) of a gang on several servers, ascending; goes before the skew.
        interference: Speed by number of other jobs on the same GPUs, beginning with one other.
        kind: What other profiles call it in ``packed``.
        packed: (kind of another job, speed on the same GPUs as it), 0 where both do not fit in the memory of a GPU.
        gpu_util_frac: How busy it keeps its GPUs when alone on them.
    """

    cpus_per_gpu: tuple[float, ...] = ()
    memory_bytes_per_gpu: tuple[float, ...] = ()
    relative_speed: tuple[tuple[float, ...], ...] = ()
    scaling: tuple[tuple[float, float], ...] = ()
    skew: float | None = None
    spread: tuple[tuple[float, float], ...] = ()
    interference: tuple[float, ...] = ()
    kind: str = ""
    packed: tuple[tuple[str, float], ...] = ()
    gpu_util_frac: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """Least cores, and least memory with them, at which a job is as fast as it can be; whole gang.

    Attributes:
        cpus: Cores; +inf when unknown.
        memory_bytes: Bytes; +inf when unknown.
    """

    cpus: float
    memory_bytes: float


def sensitivity(profile: Profile, *, cpus_per_gpu: float, memory_bytes_per_gpu: float) -> float:
    """Return the speed at these cores and bytes per GPU, rounded down to the grid; 1 when unknown.

    Below the smallest grid point the speed falls in proportion.
    """
    if not profile.relative_speed:
        return 1.0
    row, row_part = _floor(profile.cpus_per_gpu, cpus_per_gpu)
    column, column_part = _floor(profile.memory_bytes_per_gpu, memory_bytes_per_gpu)
    return profile.relative_speed[row][column] * min(row_part, column_part)


def _floor(grid: tuple[float, ...], value: float) -> tuple[int, float]:
    """Return the index of the grid point at or below ``value``, and 1, or the share of the first point reached."""
    # The tolerance keeps amounts that went through a division and back on their grid point.
    index = bisect_right(grid, value * (1 + 1e-9)) - 1
    return (index, 1.0) if index >= 0 else (0, value / grid[0])


def demand(profile: Profile, *, num_gpus: int) -> Demand:
    """Return the demand vector of a gang.

    Source: Mohan et al., "Synergy", OSDI 2022, section 3: the least cores, then the least memory, at maximum speed.
    """
    if not profile.relative_speed:
        return Demand(cpus=math.inf, memory_bytes=math.inf)
    fastest = max(max(row) for row in profile.relative_speed)
    for cpus, row in zip(profile.cpus_per_gpu, profile.relative_speed, strict=True):
        for memory, speed in zip(profile.memory_bytes_per_gpu, row, strict=True):
            if speed >= fastest:
                return Demand(cpus=num_gpus * cpus, memory_bytes=num_gpus * memory)
    raise AssertionError("a maximum is one of its values")


def scaling(profile: Profile, num_gpus: float) -> float:
    """Return the speed on so many GPUs relative to one, linear between measured points; ``num_gpus`` when unknown.

    Beyond the last measured point nothing is gained.
    """
    points = profile.scaling
    if not points:
        return float(num_gpus)
    at = bisect_right(points, (num_gpus, math.inf))
    if at == len(points):
        return points[-1][1]
    (high, high_speed), (low, low_speed) = points[at], points[at - 1] if at else (0.0, 0.0)
    return low_speed + (high_speed - low_speed) * (num_gpus - low) / (high - low)


def locality(profile: Profile, *, num_servers: int, num_gpus: int | None = None) -> float:
    """Return the slow-down factor of a gang spread over servers; 1 on one server or when nothing is known.

    As measured, linear between measured points and flat beyond them, when ``num_gpus`` is given; else by the skew.

    Source: the skew experiments of Gu et al., "Tiresias", NSDI 2019; the formula is our fit to its two classes.
    """
    if num_servers <= 1:
        return 1.0
    if profile.spread and num_gpus is not None:
        return _between(profile.spread, num_gpus / num_servers)
    if profile.skew is None:
        return 1.0
    return 1.0 / (1.0 + _SKEW_WEIGHT * max(0.0, profile.skew - _SKEW_FREE) * (num_servers - 1) / num_servers)


def _between(points: tuple[tuple[float, float], ...], x: float) -> float:
    at = bisect_right(points, (x, math.inf))
    if at in (0, len(points)):
        return points[max(0, at - 1)][1]
    (low, low_value), (high, high_value) = points[at - 1], points[at]
    return low_value + (high_value - low_value) * (x - low) / (high - low)


def interference(profile: Profile, *, neighbours: int) -> float:
    """Return the slow-down factor beside so many other jobs on the same GPUs; 1 when alone or unknown."""
    if not neighbours or not profile.interference:
        return 1.0
    return profile.interference[min(neighbours, len(profile.interference)) - 1]


def packed(profile: Profile, other: Profile) -> float:
    """Return the slow-down factor on the same GPUs as another job.

    As measured for the two; else by how busy both keep a GPU, with 5 % for switching between them; else by what is
    known of any neighbour. A job of which nothing is known is taken to keep its GPUs busy all the time: sharing must
    not look like a gain that was never measured.
    """
    if other.kind:
        for kind, factor in profile.packed:
            if kind == other.kind:
                return factor
    utils = (profile.gpu_util_frac, other.gpu_util_frac)
    if None in utils and profile.interference:
        return interference(profile, neighbours=1)
    return 0.95 / max(1.0, sum(1.0 if util is None else util for util in utils))


def speed(
    profile: Profile,
    *,
    asked_gpus: int,
    num_gpus: int,
    cpus: float,
    memory_bytes: float,
    num_servers: int = 1,
    neighbours: int = 0,
) -> float:
    """Return the speed of a job relative to its reference (see the module).

    Args:
        profile: What is known of it.
        asked_gpus: GPUs it asked for.
        num_gpus: GPUs it has.
        cpus: Cores it has, whole gang. Split like the GPUs.
        memory_bytes: Bytes it has, whole gang. Split like the GPUs.
        num_servers: Servers it is on.
        neighbours: Other jobs on its GPUs.
    """
    return (
        scaling(profile, num_gpus)
        / scaling(profile, asked_gpus)
        * sensitivity(profile, cpus_per_gpu=cpus / num_gpus, memory_bytes_per_gpu=memory_bytes / num_gpus)
        * locality(profile, num_servers=num_servers, num_gpus=num_gpus)
        * interference(profile, neighbours=neighbours)
    )


def parse_profile(data: Mapping[str, Any]) -> Profile:  # JSON: checked here
    """Return the profile from its JSON form: the fields of Profile as lists; missing ones are unknown.

    Raises:
        ValueError: If the matrix does not have one row per core count and one column per memory size, or an axis falls.
    """
    cpus = tuple(float(value) for value in data.get("cpus_per_gpu", ()))
    memory = tuple(float(value) for value in data.get("memory_bytes_per_gpu", ()))
    speeds = tuple(tuple(float(value) for value in row) for row in data.get("relative_speed", ()))
    if len(speeds) != len(cpus) or any(len(row) != len(memory) for row in speeds):
        raise ValueError(f"relative_speed must be {len(cpus)} rows of {len(memory)} values")
    if list(cpus) != sorted(set(cpus)) or list(memory) != sorted(set(memory)):
        raise ValueError("cpus_per_gpu and memory_bytes_per_gpu must rise")
    skew = data.get("skew")
    return Profile(
        cpus_per_gpu=cpus,
        memory_bytes_per_gpu=memory,
        relative_speed=speeds,
        scaling=tuple((float(gpus), float(value)) for gpus, value in data.get("scaling", ())),
        skew=None if skew is None else float(skew),
        spread=tuple((float(gpus), float(value)) for gpus, value in data.get("spread", ())),
        interference=tuple(float(value) for value in data.get("interference", ())),
        kind=str(data.get("kind", "")),
        packed=tuple((str(kind), float(value)) for kind, value in data.get("packed", ())),
        gpu_util_frac=None if data.get("gpu_util_frac") is None else float(data["gpu_util_frac"]),
    )
