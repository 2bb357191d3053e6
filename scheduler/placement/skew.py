"""Consolidate only the jobs that gain from it (Tiresias)."""

import math
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np

from scheduler.core.model.tables import FloatArray, JobTable
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import FreeGpus, Gang
from scheduler.placement.fewest import on_fewest_servers
from scheduler.placement.scattered import on_any_gpus


@dataclass(frozen=True, slots=True, kw_only=True)
class Skew:
    """Jobs whose largest tensor dominates their model get the fewest servers or wait; all others take any free GPUs.

    Source: Gu et al., "Tiresias", NSDI 2019, section 3.3 (model profile-based placement). Differs: a job of unknown
    skew takes any free GPUs, as the paper does for its first iterations, until its profile is known; what runs is not
    moved. The limit is an option, not learned from history.
    """

    name: ClassVar[str] = "skew"

    pack_limit: float = field(
        default=0.3,
        metadata={
            "help": "Largest tensor as a share of the model above which a job is kept on the fewest servers.",
            "minimum": 0.0,
            "maximum": 1.0,
        },
    )

    def kinds(self, jobs: JobTable, now_s: float) -> tuple[FloatArray, ...]:
        """Return 1 for jobs that must be consolidated, else 0."""
        # NO_ROW is the last entry: the job of which nothing is known.
        skews = [math.nan if profile.skew is None else profile.skew for profile in jobs.profiles]
        return ((np.array([*skews, math.nan])[jobs.profile] > self.pack_limit).astype(np.float64),)

    def seats(self, space: FreeGpus, gang: Gang) -> Seats:
        """Return the fewest servers that could hold the gang if they were empty, or any free GPUs; empty for none."""
        if gang.kind[0]:
            return on_fewest_servers(space, gang, max_servers=max(1, gang.least_servers))
        return on_any_gpus(space, gang)
