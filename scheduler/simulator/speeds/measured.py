"""Measured throughputs of Gavel and Pollux: run times of their traces, scaling, slow-down when spread, pairs on a GPU.

The README of the folder tells where the numbers come from.
"""

import json
import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import fmean

from scheduler.core.model.profile import Profile, locality

# (GPUs, iterations a second), ascending by GPUs.
Curve = tuple[tuple[int, float], ...]
# (samples on one GPU in one step, seconds of the step, seconds of it spent on synchronisation), ascending.
Steps = tuple[tuple[int, float, float], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class GavelModel:
    """A model with its batch size on one type of GPU.

    Attributes:
        together: Speed on as few servers as possible.
        spread: Speed with each GPU on a server of its own.
    """

    together: Curve
    spread: Curve


@dataclass(frozen=True, slots=True, kw_only=True)
class PolluxModel:
    """An application of Pollux, on servers with four GPUs.

    Attributes:
        iterations: Iterations of the whole training by batch size.
        most_per_gpu: Most samples that fit on a GPU in one step; larger shares are accumulated.
        together: Step times by GPUs, on as few servers as possible.
        spread: The same with each GPU on a server of its own.
    """

    iterations: Mapping[int, int]
    most_per_gpu: int
    together: Mapping[int, Steps]
    spread: Mapping[int, Steps]


@lru_cache(maxsize=16)
def gavel_models(folder: Path) -> Mapping[str, GavelModel]:
    """Return Gavel's models by name, such as ``ResNet-50 (batch size 64)``, on V100 GPUs."""
    data = json.loads((folder / "gavel.json").read_text(encoding="utf-8"))["v100"]
    return {
        name: GavelModel(
            together=tuple((int(gpus), float(rate)) for gpus, rate in curves["together"]),
            spread=tuple((int(gpus), float(rate)) for gpus, rate in curves.get("spread", ())),
        )
        for name, curves in data.items()
    }


@lru_cache(maxsize=16)
def gavel_pairs(folder: Path) -> Mapping[str, Mapping[str, float]]:
    """Return the speed of a model beside another on one V100, as a share of its speed alone: ``pairs[model][other]``.

    0 where both do not fit into the GPU's memory.
    """
    data = json.loads((folder / "gavel_pairs.json").read_text(encoding="utf-8"))["v100"]
    return {name: {other: float(rate) for other, rate in row.items()} for name, row in data.items()}


def gavel_profile(model: GavelModel, *, name: str, num_gpus: int, beside: Mapping[str, float]) -> Profile:
    """Return what Gavel's measurements say of a job.

    Args:
        model: Its model.
        name: What its model is called.
        num_gpus: Its gang.
        beside: Its row of ``gavel_pairs``. Beside a model that is not in it, it goes as fast as beside the mean of
            those it fits with.
    """
    together, spread = dict(model.together), dict(model.spread)
    fitting = [rate for rate in beside.values() if rate > 0]
    return Profile(
        scaling=_relative(model.together),
        skew=_skew(together.get(num_gpus), spread.get(num_gpus), num_gpus),
        interference=(min(1.0, fmean(fitting)),) if fitting else (),
        kind=name,
        packed=tuple(beside.items()),
    )


@lru_cache(maxsize=16)
def pollux_models(folder: Path) -> Mapping[str, PolluxModel]:
    """Return Pollux's applications by name."""
    data = json.loads((folder / "pollux.json").read_text(encoding="utf-8"))
    return {
        name: PolluxModel(
            iterations={int(batch): int(count) for batch, count in model["iterations"].items()},
            most_per_gpu=int(model["most_per_gpu"]),
            together=_steps(model["together"]),
            spread=_steps(model["spread"]),
        )
        for name, model in data.items()
    }


@lru_cache(maxsize=16)
def afs_profiles(folder: Path) -> Mapping[str, Profile]:
    """Return the scaling of eight models with a fixed batch, such as ``resnet50-256``, on up to 64 A100 GPUs."""
    data = json.loads((folder / "afs.json").read_text(encoding="utf-8"))
    return {
        name: Profile(scaling=_relative([(int(gpus), float(rate)) for gpus, rate in curve]))
        for name, curve in data.items()
    }


def iteration_s(model: PolluxModel, steps: Mapping[int, Steps], *, num_gpus: int, batch: int) -> float | None:
    """Return the time of one iteration, seconds; None where it was not measured.

    Each GPU takes its part of the batch in as few equal steps as fit into its memory; only the last step synchronises.
    Between measured parts the time is linear.

    Source: simulator/applications.py of petuum/adaptdl, branch osdi21-artifact.
    """
    if num_gpus not in steps:
        return None
    points = steps[num_gpus]
    share = math.ceil(batch / num_gpus)
    count = math.ceil(share / model.most_per_gpu)
    part = math.ceil(share / count)
    sizes = [size for size, _, _ in points]
    if not sizes[0] <= part <= sizes[-1]:
        return None
    at = bisect_left(sizes, part)
    low_size, low_s, low_sync_s = points[max(0, at - 1)]
    size, step_s, sync_s = points[at]
    weight = (part - low_size) / (size - low_size) if size > low_size else 1.0
    step_s = low_s + weight * (step_s - low_s)
    sync_s = low_sync_s + weight * (sync_s - low_sync_s)
    return step_s + (count - 1) * (step_s - sync_s)


def pollux_profile(model: PolluxModel, *, num_gpus: int, batch: int) -> Profile:
    """Return the scaling of an application at a fixed batch, and its slow-down when each GPU is on another server."""
    measured = ((gpus, iteration_s(model, model.together, num_gpus=gpus, batch=batch)) for gpus in model.together)
    curve = tuple((gpus, 1 / seconds) for gpus, seconds in measured if seconds)
    spread_s = iteration_s(model, model.spread, num_gpus=num_gpus, batch=batch)
    return Profile(
        scaling=_relative(curve) if curve and curve[0][0] == 1 else (),
        skew=_skew(dict(curve).get(num_gpus), 1 / spread_s if spread_s else None, num_gpus),
    )


def _relative(curve: Sequence[tuple[int, float]]) -> tuple[tuple[float, float], ...]:
    """Return the curve relative to one GPU."""
    return tuple((float(gpus), rate / curve[0][1]) for gpus, rate in curve)


def _skew(together: float | None, spread: float | None, num_gpus: int) -> float | None:
    """Return the skew at which the model of speeds slows a gang on ``num_gpus`` servers as much as was measured.

    It stands for the measured slow-down, not for a tensor; None where that is unknown, or the gang is one GPU.
    """
    if together is None or spread is None or num_gpus < 2:
        return None
    if spread >= together:
        return 0.0
    # The model's slow-down is 1 / (1 + a * (skew - b)): two of its values give a and b.
    at_one = 1 / locality(Profile(skew=1.0), num_servers=num_gpus) - 1
    at_two = 1 / locality(Profile(skew=2.0), num_servers=num_gpus) - 1
    return 1.0 + (together / spread - 1 - at_one) / (at_two - at_one)


def _steps(data: Mapping[str, Sequence[Sequence[float]]]) -> Mapping[int, Steps]:
    return {
        int(gpus): tuple((int(size), float(step_s), float(sync_s)) for size, step_s, sync_s in points)
        for gpus, points in data.items()
    }
