"""Random small clusters, and the smallest part of one on which two answers differ."""

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from random import Random

import numpy as np

from scheduler.core.model.profile import Profile, demand
from scheduler.core.model.tables import Snapshot
from tests.support.simulator.strategies import NOW_S, JobRow, QueueRow, ServerRow, snapshot_of

GIB = 2.0**30
CPUS_PER_GPU = 3.0
GIB_PER_GPU = 64.0
CURVES = (
    ((1.0, 1.0), (2.0, 1.9), (4.0, 3.5), (8.0, 6.0)),
    ((1.0, 1.0), (2.0, 1.4), (4.0, 1.7), (8.0, 1.8)),
    ((1.0, 1.0), (2.0, 2.0), (4.0, 4.0), (8.0, 8.0)),
    ((1.0, 1.0), (2.0, 1.5), (4.0, 1.5), (8.0, 1.2)),
)
GRID_CPUS = (1.0, 2.0, 3.0, 4.0, 6.0, 9.0, 12.0)
GRID_GIB = (32.0, 64.0, 128.0)
# Speed by cores at enough memory, at the points of GRID_CPUS.
MATRICES = (
    (0.33, 0.66, 1.0, 1.25, 1.75, 2.0, 2.94),
    (0.37, 0.72, 1.0, 1.3, 1.75, 2.4, 2.4),
    (1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0),
    (0.33, 0.66, 1.0, 1.0, 1.0, 1.0, 1.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One cluster at one moment; rows as in ``tests/support/simulator/strategies.py``, ``racks`` by server."""

    jobs: tuple[JobRow, ...]
    servers: tuple[ServerRow, ...]
    racks: tuple[int, ...]
    queues: tuple[QueueRow, ...] = (QueueRow(),)
    now_s: float = NOW_S

    def snapshot(self) -> Snapshot:
        """Return what the core looks at."""
        snapshot = snapshot_of(list(self.jobs), list(self.servers), list(self.queues), now_s=self.now_s)
        return replace(snapshot, servers=replace(snapshot.servers, rack=np.array(self.racks, dtype=np.int64)))

    def told(self) -> str:
        """Return the case in a few lines: of each job what is not as in every other."""
        usual = JobRow()
        lines = [f"servers {[(s.num_gpus, s.num_cpus, s.memory_bytes / GIB) for s in self.servers]} racks {self.racks}"]
        for number, job in enumerate(self.jobs):
            said = {field.name: getattr(job, field.name) for field in fields(job)}
            if job.profile is not None:
                said["profile"] = f"skew {job.profile.skew}"
            lines.append(f"{number}: { {k: v for k, v in said.items() if v != getattr(usual, k) and v == v} }")
        return "\n".join(lines)

    @property
    def num_gpus(self) -> int:
        """Return the GPUs of all servers."""
        return sum(server.num_gpus for server in self.servers)


def _profile(rng: Random) -> Profile:
    memory_matters = rng.random() < 0.3
    top = rng.choice(MATRICES)
    # With less memory than the share no job is fast; with more, some are faster.
    rows = tuple((0.1 * speed, speed if not memory_matters else min(speed, 1.5), speed) for speed in top)
    return Profile(
        cpus_per_gpu=GRID_CPUS,
        memory_bytes_per_gpu=tuple(gib * GIB for gib in GRID_GIB),
        relative_speed=rows,
        scaling=rng.choice(CURVES),
        skew=rng.choice([None, 0.05, 0.6]),
    )


def random_case(
    rng: Random,
    *,
    most_servers: int = 4,
    running: bool = True,
    wide: bool = False,
    elastic: bool = False,
    protected: bool = False,
) -> Case:
    """Return a cluster of up to ``most_servers`` servers of 1 to 8 GPUs with up to twelve jobs of one queue.

    Args:
        rng: Where chance comes from.
        most_servers: Most servers.
        running: Whether some of the jobs run already.
        wide: Whether gangs may be spread over servers.
        elastic: Whether some jobs can use other numbers of GPUs.
        protected: Whether some jobs are not preemptible.
    """
    alike = rng.random() < 0.5
    sizes = [rng.choice([1, 2, 4, 8]) for _ in range(rng.randint(1, most_servers))]
    sizes = [sizes[0]] * len(sizes) if alike else sizes
    servers = tuple(
        ServerRow(num_gpus=size, num_cpus=CPUS_PER_GPU * size, memory_bytes=GIB_PER_GPU * GIB * size) for size in sizes
    )
    profiles = [_profile(rng) for _ in range(3)]
    free = list(sizes)
    jobs = []
    for _ in range(rng.randint(1, 12)):
        row = _job(rng, profiles, elastic=elastic)
        row = replace(row, preemptible=not protected or rng.random() < 0.7)
        row = replace(row, max_servers=rng.choice([1, 2, 0]) if wide else 1)
        seats = _seats(rng, row, free) if running and rng.random() < 0.5 else ()
        if seats:
            for server, gpus in seats:
                free[server] -= gpus
            row = _started(rng, row, seats)
        jobs.append(row)
    racks = tuple(rng.randint(0, 1) if rng.random() < 0.5 else 0 for _ in servers)
    return Case(jobs=tuple(jobs), servers=servers, racks=racks)


def _job(rng: Random, profiles: list[Profile], *, elastic: bool) -> JobRow:
    gpus = rng.choice([1, 1, 1, 2, 2, 3, 4, 8])
    profile = rng.choice([None, *profiles])
    want = demand(profile or Profile(), num_gpus=gpus)
    remaining_s = rng.choice([60.0, 600.0, 1_500.0, 6_000.0, 90_000.0])
    started = rng.random() < 0.5
    attained_gpu_s = rng.choice([90.0, 2_000.0, 4_000.0, 50_000.0]) * gpus if started else 0.0
    executed_s = attained_gpu_s / gpus
    row = JobRow(
        num_gpus=gpus,
        arrival_s=float(rng.randint(0, 6)) * 1_000,
        priority=rng.choice([20.0, 50.0, 50.0, 80.0]),
        attained_gpu_s=attained_gpu_s,
        executed_s=executed_s,
        waited_s=rng.choice([10.0, 1_000.0, 8_000.0]),
        first_start_s=float(rng.randint(3, 8)) * 1_000 if started else math.inf,
        remaining_s=remaining_s,
        total_s=remaining_s + executed_s,
        demand_cpus=want.cpus,
        demand_memory_bytes=want.memory_bytes,
        owner=rng.randint(0, 3),
        weight=rng.choice([1.0, 1.0, 2.0]),
        sharers=rng.choice([1.0, 3.0, 4.5]),
        rate=math.nan,
        profile=profile,
    )
    if not elastic or rng.random() < 0.3:
        return row
    least = rng.choice([1, 1, gpus])
    return replace(row, min_gpus=least, max_gpus=max(gpus, rng.choice([1, 2, 3, 4, 8])))


def _seats(rng: Random, row: JobRow, free: list[int]) -> tuple[tuple[int, int], ...]:
    """Return seats for the job on servers with room, somewhere; empty when there is none."""
    gpus = row.num_gpus
    with_room = [server for server, count in enumerate(free) if count >= gpus]
    if with_room:
        return ((rng.choice(with_room), gpus),)
    if row.max_servers == 1 or sum(free) < gpus:
        return ()
    seats, left = [], gpus
    for server in sorted(range(len(free)), key=lambda server: -free[server]):
        count = min(left, free[server])
        if count:
            seats.append((server, count))
            left -= count
    if row.max_servers and len(seats) > row.max_servers:
        return ()
    return tuple(sorted(seats))


def _started(rng: Random, row: JobRow, seats: tuple[tuple[int, int], ...]) -> JobRow:
    held_at_s = float(rng.choice([7_000, 8_000, 9_000, NOW_S - 1_200, NOW_S - 2_430]))  # the last two at a lease's end
    return replace(
        row,
        seats=seats,
        waited_s=0.0,
        first_start_s=min(row.first_start_s, held_at_s),
        held_at_s=held_at_s,
        executed_s=max(row.executed_s, NOW_S - held_at_s),
        attained_gpu_s=max(row.attained_gpu_s, (NOW_S - held_at_s) * row.num_gpus),
        unsaved_s=rng.choice([0.0, 30.0, 300.0]),
    )


def smallest(case: Case, disagrees: Callable[[Case], object]) -> Case:
    """Return the case with as many jobs and empty servers left out as the disagreement survives."""
    at = 0
    while at < len(case.jobs):
        fewer = replace(case, jobs=case.jobs[:at] + case.jobs[at + 1 :])
        if _still(fewer, disagrees):
            case, at = fewer, 0
        else:
            at += 1
    return case


def _still(case: Case, disagrees: Callable[[Case], object]) -> bool:
    try:
        return bool(disagrees(case))
    except Exception:  # a crash on the smaller case is a disagreement too
        return True
