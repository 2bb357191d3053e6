"""Jobs whose number of GPUs the cluster chooses: Philly-like lengths, measured or made-up scaling."""

from collections.abc import Mapping
from dataclasses import replace

from scheduler.core.model.profile import Profile
from scheduler.core.model.tables import FloatArray
from scheduler.simulator.draws import Draws
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.workloads.philly import philly_like

MOST_GPUS = 32
GPUS_PER_SERVER = 8
# What adding a GPU, and adding a server, costs; drawn evenly.
_GPU_COST = (0.01, 0.35)
_SERVER_COST = (0.0, 0.5)
_POINTS = (1, 2, 4, 8, 16, 32, 64)


def elastic(
    *,
    num_jobs: int,
    cluster_gpus: int,
    curves: Mapping[str, Profile] | None = None,
    load: float = 0.9,
    seed: int = 0,
    diurnal: bool = True,
) -> list[SimJob]:
    """Return elastic jobs sorted by arrival.

    Each runs on 1 GPU or more, up to twice the GPUs that its user would ask for, at most 32 and never more than there
    are; its run time is stated for the GPUs the user would ask for.

    Args:
        num_jobs: How many.
        cluster_gpus: GPUs of the cluster.
        curves: Scaling by model, drawn evenly; None for made-up curves, one a job (``generic_scaling``).
        load: As in ``philly_like``, by the GPUs the users would ask for.
        seed: The same seed gives the same jobs.
        diurnal: Whether arrivals follow day and week.

    Source: lengths and gangs as in ``philly_like``; the bounds are ours, since AFS and its talk give none.

    Raises:
        ValueError: If a number is out of its range.
    """
    jobs = philly_like(num_jobs=num_jobs, cluster_gpus=cluster_gpus, load=load, seed=seed, diurnal=diurnal)
    kinds = _kinds(num_jobs, curves, Draws(seed, "scaling"))
    return [
        replace(
            job,
            model=model,
            profile=profile,
            min_gpus=1,
            max_gpus=max(job.num_gpus, min(2 * job.num_gpus, MOST_GPUS, cluster_gpus)),
        )
        for job, (model, profile) in zip(jobs, kinds, strict=True)
    ]


def _kinds(num_jobs: int, curves: Mapping[str, Profile] | None, draws: Draws) -> list[tuple[str, Profile]]:
    """Return a model and its profile for each job; made-up curves belong to no model."""
    if curves is None:
        made_up = generic_scaling(draws.uniform(num_jobs), draws.uniform(num_jobs))
        return [("", Profile(scaling=curve)) for curve in made_up]
    pairs = list(curves.items())
    return [pairs[index] for index in draws.choice(num_jobs, [1.0] * len(pairs)).tolist()]


def generic_scaling(gpu: FloatArray, server: FloatArray) -> list[tuple[tuple[float, float], ...]]:
    """Return scaling curves k / (1 + a (k - 1) + b (servers - 1)); the arguments, 0 to 1, pick a and b."""
    (low_a, high_a), (low_b, high_b) = _GPU_COST, _SERVER_COST
    pairs = zip((low_a + (high_a - low_a) * gpu).tolist(), (low_b + (high_b - low_b) * server).tolist(), strict=True)
    return [
        tuple((float(k), round(k / (1 + a * (k - 1) + b * (-(-k // GPUS_PER_SERVER) - 1)), 6)) for k in _POINTS)
        for a, b in pairs
    ]
