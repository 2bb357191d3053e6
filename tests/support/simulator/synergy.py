"""Jobs of the models that Synergy measured, and how fast a plan runs them."""

import json
from collections.abc import Sequence
from pathlib import Path

from scheduler.core.model.plan import Plan
from scheduler.core.model.profile import demand, parse_profile, sensitivity
from tests.support.simulator.strategies import JobRow

PROFILES = {
    name: parse_profile(data)
    for name, data in json.loads(Path("fixtures/profiles/synergy.json").read_text(encoding="utf-8")).items()
}


def job(
    name: str, *, num_gpus: int = 1, max_servers: int = 1, seats: tuple[tuple[int, int], ...] = (), min_cpus: float = 0
) -> JobRow:
    """Return a job of a known model with its demand and its profile."""
    wants = demand(PROFILES[name], num_gpus=num_gpus)
    return JobRow(
        num_gpus=num_gpus,
        max_servers=max_servers,
        seats=seats,
        demand_cpus=wants.cpus,
        demand_memory_bytes=wants.memory_bytes,
        min_cpus=min_cpus,
        profile=PROFILES[name],
    )


def speeds(plan: Plan, jobs: Sequence[JobRow]) -> dict[int, float]:
    """Return by row the speed of each granted job with the cores and memory it got; a gang runs as its slowest part."""
    grants, found = plan.grants, dict[int, float]()
    columns = (grants.job, grants.num_gpus, grants.cpus, grants.memory_bytes)
    for row, gpus, cpus, memory in zip(*(column.tolist() for column in columns), strict=True):
        profile = jobs[row].profile
        speed = (
            1.0
            if profile is None
            else sensitivity(profile, cpus_per_gpu=cpus / gpus, memory_bytes_per_gpu=memory / gpus)
        )
        found[row] = min(speed, found.get(row, speed))
    return found
