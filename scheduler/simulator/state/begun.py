"""Start a replay from a snapshot: some jobs run on their seats, others wait with what they attained so far.

The snapshot is the one that a live round plans. What it does not hold, above all how long jobs still run, is an
argument.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from scheduler.core.model.profile import Profile
from scheduler.core.model.tables import NO_ROW, FloatArray, Placements, Snapshot
from scheduler.simulator.jobs import UNKNOWN, SimJob
from scheduler.simulator.state.columns import Columns
from scheduler.simulator.state.tally import Tally
from scheduler.simulator.state.world import World

# A job that is as good as done still takes a moment to end.
_LEAST_S = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """The state in which a replay begins. The jobs of the snapshot are the first of the workload, in their order.

    Attributes:
        snapshot: The state; its placements stand on the servers of the replay.
        remaining_s: (n,) run time left of each of its jobs at its reference speed, seconds, finite.
    """

    snapshot: Snapshot
    remaining_s: FloatArray

    def fill(self, columns: Columns) -> None:
        """Write what the snapshot knows into the columns of the workload."""
        jobs, now_s = self.snapshot.jobs, self.snapshot.now_s
        size = len(jobs)
        first = slice(0, size)
        columns.since_s[first] = now_s
        columns.work_s[first] = np.maximum(_LEAST_S, self.remaining_s)
        for name in ("attained_gpu_s", "executed_s", "waited_s", "first_start_s", "held_at_s", "preemptible", "lent"):
            getattr(columns, name)[first] = getattr(jobs, name)
        columns.demand_cpus[first], columns.demand_memory_bytes[first] = jobs.demand_cpus, jobs.demand_memory_bytes
        columns.service_gpu_s[first] = jobs.attained_gpu_s
        columns.queueing_s[first] = np.maximum(0.0, now_s - columns.arrival_s[first] - jobs.executed_s)
        columns.arrived[first] = True
        columns.num_active, columns.counted_s = size, now_s
        # As if as many jobs had been active all the time: nothing better is known of the past.
        columns.joined_active_s[first] = -size * (now_s - columns.arrival_s[first])

    def seat(self, world: World, tally: Tally) -> None:
        """Let the running jobs go on where they are, and the others wait."""
        columns, now_s = world.columns, self.snapshot.now_s
        seats = _grants(self.snapshot.held)
        for row in range(len(self.snapshot.jobs)):
            tally.arrived(row, now_s)
        for row, grant in seats.items():
            gpus, rate = world.speed_of(row, grant)
            tally.sat(row, grant, now_s)
            tally.rate(row, gpus, rate, now_s)
            # What is left was stated at reference speed; the present one is what the job was seen to run at.
            columns.work_s[row] *= rate
            columns.set_rate(row, gpus=float(gpus), rate=rate)
        world.restore(now_s, self.snapshot.held, [])


def _grants(held: Placements) -> dict[int, tuple[tuple[int, int, float, float], ...]]:
    seats: dict[int, tuple[tuple[int, int, float, float], ...]] = {}
    columns = (held.job, held.server, held.num_gpus, held.cpus, held.memory_bytes)
    for row, *seat in zip(*(column.tolist() for column in columns), strict=True):
        seats[row] = (*seats.get(row, ()), tuple(seat))
    return seats


def jobs_of(snapshot: Snapshot, remaining_s: FloatArray, names: Sequence[str] = ()) -> list[SimJob]:
    """Return the jobs of a snapshot as the first of a workload; ``remaining_s`` as in ``Begun``."""
    jobs = snapshot.jobs
    run_s = np.maximum(_LEAST_S, jobs.executed_s + remaining_s)
    return [
        SimJob(
            arrival_s=float(jobs.arrival_s[row]),
            num_gpus=int(jobs.num_gpus[row]),
            run_s=float(run_s[row]),
            queue=int(jobs.queue[row]),
            max_servers=int(jobs.max_servers[row]),
            profile=_profile(jobs.profiles, int(jobs.profile[row])),
            owner=int(jobs.owner[row]),
            priority=float(jobs.priority[row]),
            weight=float(jobs.weight[row]),
            min_gpus=int(jobs.min_gpus[row]),
            max_gpus=int(jobs.max_gpus[row]),
            min_cpus=float(jobs.min_cpus[row]),
            min_memory_bytes=float(jobs.min_memory_bytes[row]),
            name=names[row] if names else "",
        )
        for row in range(len(jobs))
    ]


def _profile(profiles: Sequence[Profile], number: int) -> Profile:
    return UNKNOWN if number == NO_ROW else profiles[number]
