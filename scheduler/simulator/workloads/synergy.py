"""Jobs like those of Synergy's evaluation: three classes of models with their profiles, Poisson arrivals."""

from collections.abc import Mapping
from typing import Literal

import numpy as np

from scheduler.core.model.profile import Profile
from scheduler.simulator.draws import Draws, arrivals, milliseconds
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.speeds.profiles import DEFAULT_MIX, assign_profiles
from scheduler.simulator.workloads.philly import SIMPLE_GANGS, SIMPLE_MINUTES, check_sizes, draw_gangs, power_minutes_s

# The shorter jobs of the trace with 100 jobs that the deployment ran.
STATIC_MINUTES = ((0.8, 1.5, 2.5), (0.2, 2.5, 2.7))


def synergy_split(
    *,
    num_jobs: int,
    cluster_gpus: int,
    profiles: Mapping[str, Profile],
    load: float = 0.9,
    seed: int = 0,
    mix: Mapping[str, float] = DEFAULT_MIX,
    gangs: Literal["single", "mixed"] = "single",
    static: bool = False,
) -> list[SimJob]:
    """Return jobs sorted by arrival, each with a model and its profile.

    Args:
        num_jobs: How many.
        cluster_gpus: GPUs of the cluster; no job is wider.
        profiles: Sensitivity by model.
        load: GPU time that arrives for each GPU and unit of time at the GPU-proportional speed, by the mean of the
            jobs drawn; cores and memory beyond that share make the real load smaller.
        seed: The same seed gives the same jobs.
        mix: Share of each class.
        gangs: ``single`` for 1 GPU each, ``mixed`` for 1, 2, 4 and 8.
        static: All jobs arrive at 0 s and have the durations of the deployment's small trace.

    Source: Mohan et al., "Synergy", OSDI 2022, section 5, and the generator of msr-fiddle/synergy.

    Raises:
        ValueError: If a number is out of its range.
    """
    check_sizes(num_jobs=num_jobs, cluster_gpus=cluster_gpus, load=load)
    shares = SIMPLE_GANGS if gangs == "mixed" else {1: 1.0}
    num_gpus = draw_gangs(Draws(seed, "gangs"), num_jobs, shares, widest=cluster_gpus)
    run_s = power_minutes_s(Draws(seed, "durations"), num_jobs, STATIC_MINUTES if static else SIMPLE_MINUTES)
    gap_s = 0.0 if static else float(np.mean(num_gpus * run_s)) / (load * cluster_gpus)
    arrival_s = arrivals(Draws(seed, "arrivals"), num_jobs, mean_gap_s=gap_s, diurnal=False)
    bare = [
        SimJob(arrival_s=arrival, num_gpus=gpus, run_s=run)
        for arrival, gpus, run in zip(milliseconds(arrival_s), num_gpus.tolist(), milliseconds(run_s), strict=True)
    ]
    return assign_profiles(bare, profiles=profiles, mix=mix, seed=seed)
