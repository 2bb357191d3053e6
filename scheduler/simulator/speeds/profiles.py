"""Measured speeds of known models, read from a folder such as fixtures/profiles, and their assignment to jobs.

The README of that folder tells where the numbers come from.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import cycle
from pathlib import Path

from scheduler.core.model.profile import Profile, parse_profile, sensitivity
from scheduler.simulator.draws import Draws
from scheduler.simulator.jobs import UNKNOWN, SimJob

# The machine of the paper: 24 cores and 500 GB for 8 GPUs.
SYNERGY_CPUS_PER_GPU = 3
SYNERGY_MEMORY_BYTES_PER_GPU = 62.5e9

# How Synergy's files call three of the paper's models.
_SYNERGY_NAMES = {"res18": "resnet18", "res50": "resnet50", "transformer": "transformer-xl"}

# Source: Mohan et al., "Synergy", OSDI 2022, section 5: models of each class, in the order of the released generator.
CLASSES: Mapping[str, tuple[str, ...]] = {
    "image": ("alexnet", "resnet18", "resnet50", "mobilenet", "shufflenet"),
    "language": ("gnmt", "transformer-xl", "lstm"),
    "speech": ("m5", "deepspeech"),
}
# Share of jobs in each class.
DEFAULT_MIX: Mapping[str, float] = {"image": 0.2, "language": 0.7, "speech": 0.1}


def synergy_name(name: str) -> str:
    """Return the paper's name of a model for the name in Synergy's files."""
    return _SYNERGY_NAMES.get(name, name)


@lru_cache(maxsize=16)
def synergy_profiles(folder: Path, *, cpus_per_gpu: int = SYNERGY_CPUS_PER_GPU) -> Mapping[str, Profile]:
    """Return the sensitivity of Synergy's models by name.

    Args:
        folder: Where the files are.
        cpus_per_gpu: Cores for each GPU of the machine to which speed 1 refers, with 62.5 GB: 3, 4, 5 or 6.
    """
    data = json.loads((folder / "synergy.json").read_text(encoding="utf-8"))
    return {name: _referred(parse_profile(profile), cpus_per_gpu) for name, profile in data.items()}


def _referred(profile: Profile, cpus_per_gpu: int) -> Profile:
    """Return the profile, measured relative to 3 cores, relative to another share."""
    unit = sensitivity(profile, cpus_per_gpu=cpus_per_gpu, memory_bytes_per_gpu=SYNERGY_MEMORY_BYTES_PER_GPU)
    speeds = tuple(tuple(speed / unit for speed in row) for row in profile.relative_speed)
    return replace(profile, relative_speed=speeds)


@lru_cache(maxsize=16)
def synergy_iteration_s(folder: Path, *, cpus_per_gpu: int = SYNERGY_CPUS_PER_GPU) -> Mapping[str, float]:
    """Return the time of one iteration at the GPU-proportional share by model, seconds."""
    data = json.loads((folder / "synergy_iterations.json").read_text(encoding="utf-8"))
    return {name: float(value) for name, value in data[str(cpus_per_gpu)].items()}


def assign_profiles(
    jobs: Sequence[SimJob],
    *,
    profiles: Mapping[str, Profile],
    mix: Mapping[str, float] = DEFAULT_MIX,
    seed: int = 0,
) -> list[SimJob]:
    """Return the jobs, each with a model and its profile; jobs that have a profile keep it.

    A job whose trace names one of the models gets the profile of that model; every other job draws a class by ``mix``
    and takes the next model of the class, round robin.

    Source: the workload of Mohan et al., "Synergy", OSDI 2022.

    Raises:
        ValueError: If the mix names an unknown class or holds no positive share.
    """
    if unknown := sorted(set(mix) - set(CLASSES)):
        raise ValueError(f"no class {', '.join(unknown)}; the classes are {', '.join(CLASSES)}")
    if min(mix.values(), default=0.0) < 0 or sum(mix.values()) <= 0:
        raise ValueError("the shares of a mix are not negative, and one of them is positive")
    classes = [cycle(CLASSES[name]) for name in mix]
    drawn = Draws(seed, "models").choice(len(jobs), tuple(mix.values())).tolist()
    assigned = []
    for job, number in zip(jobs, drawn, strict=True):
        if job.profile != UNKNOWN:
            assigned.append(job)
            continue
        model = job.model if job.model in profiles else next(classes[number])
        assigned.append(replace(job, model=model, profile=profiles[model]))
    return assigned
