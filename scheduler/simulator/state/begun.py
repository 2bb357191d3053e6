"""Start a replay from a snapshot: some jobs run on their seats, others wait with what they attained so far.

The snapshot is the one that a live round plans. What it does not hold, above all how long jobs still run, is an
argument.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scheduler.core.model.changes import grants_of
from scheduler.core.model.plan import WaitReason
from scheduler.core.model.tables import NO_ROW, FloatArray, Snapshot
from scheduler.core.round.held_back import held_rows
from scheduler.simulator.jobs import UNKNOWN, SimJob
from scheduler.simulator.state.columns import Columns
from scheduler.simulator.state.tally import Tally
from scheduler.simulator.state.world import World

# A job that is as good as done still takes a moment to end.
_LEAST_S = 1.0
# What a snapshot and a workload tell of a job alike.
_KNOWN = (
    *("arrival_s", "num_gpus", "queue", "max_servers", "owner", "priority", "weight"),
    *("min_gpus", "max_gpus", "min_cpus", "min_memory_bytes"),
)


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
        columns.arrived[list(held_rows(self.snapshot))] = False
        active = int(columns.arrived[first].sum())
        columns.num_active, columns.counted_s = active, now_s
        # The past is not known, so the jobs that are active now count as if they had been active all the time.
        columns.joined_active_s[first] = -active * (now_s - columns.arrival_s[first])

    def seat(self, world: World, tally: Tally) -> None:
        """Let the running jobs go on where they are, and the others wait."""
        columns, now_s = world.columns, self.snapshot.now_s
        seats = grants_of(self.snapshot.held)
        for row in np.flatnonzero(columns.arrived[: len(self.snapshot.jobs)]).tolist():
            tally.arrived(row, now_s)
        for row, grant in seats.items():
            gpus, rate = world.speed_of(row, grant)
            tally.sat(row, grant, now_s)
            tally.rate(row, gpus, rate, now_s)
            # What is left was stated at reference speed; the present one is what the job was seen to run at.
            columns.work_s[row] *= rate
            columns.set_rate(row, gpus=float(gpus), rate=rate)
        world.restore(now_s, self.snapshot.held, [], later=self._later())

    def _later(self) -> list[tuple[float, int]]:
        """Return when the first job of each array joins whose places are all taken by jobs outside the snapshot.

        The replay does not see those end. It counts on one of them to take as long as the jobs of the array do.
        """
        snapshot, later = self.snapshot, []
        jobs, held = snapshot.jobs, held_rows(snapshot)
        row_of = {number: row for row, number in enumerate(jobs.job_id.tolist())}
        for array in snapshot.arrays:
            rows = [row_of[number] for number in array.jobs if number in row_of]
            waiting = [row for row in rows if row in held and held[row][0] is WaitReason.ARRAY_LIMIT]
            if array.outside < array.most or not waiting or jobs.running[rows].any():
                continue
            first = min(waiting, key=lambda row: (not np.isfinite(jobs.first_start_s[row]), row))
            later.append((snapshot.now_s + max(_LEAST_S, float(np.median(self.remaining_s[rows]))), first))
        return later


def jobs_of(snapshot: Snapshot, remaining_s: FloatArray, names: Sequence[str] = ()) -> list[SimJob]:
    """Return the jobs of a snapshot as the first of a workload; ``remaining_s`` as in ``Begun``."""
    jobs = snapshot.jobs
    run_s = np.maximum(_LEAST_S, jobs.executed_s + remaining_s).tolist()
    profile = [UNKNOWN if number == NO_ROW else jobs.profiles[number] for number in jobs.profile.tolist()]
    columns: list[list[Any]] = [getattr(jobs, name).tolist() for name in _KNOWN]  # Any: numbers of two types
    number: list[int] = jobs.job_id.tolist()
    after = {job: each.on for each in snapshot.after for job in each.jobs}
    # Jobs of the array that are at work outside the snapshot end some time, which a replay does not see. So at least
    # one place is left to those inside; ``Begun`` says from when.
    array = {job: (each.number, max(1, each.most - each.outside)) for each in snapshot.arrays for job in each.jobs}
    return [
        SimJob(
            run_s=run_s[row],
            profile=profile[row],
            name=names[row] if names else "",
            number=number[row],
            after=after.get(number[row], ()),
            array=array.get(number[row], (0, 0))[0],
            array_most=array.get(number[row], (0, 0))[1],
            **dict(zip(_KNOWN, values, strict=True)),
        )
        for row, values in enumerate(zip(*columns, strict=True))
    ]
