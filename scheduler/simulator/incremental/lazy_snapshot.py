"""A snapshot of the simulated cluster whose placements are gathered only when a policy looks at them."""

from dataclasses import replace

import numpy as np

from scheduler.core.model.changes import placements
from scheduler.core.model.tables import IntArray, JobTable, Placements, QueueTable, ServerTable
from scheduler.simulator.state.world import World


class LazySnapshot:
    """Has all of a ``Snapshot`` that policies and ``seat_jobs`` look at."""

    def __init__(self, world: World, servers: ServerTable, queues: QueueTable, rows: IntArray) -> None:
        self.now_s, self.round_s, self.servers, self.queues = world.now_s, world.round_s, servers, queues
        self.jobs: JobTable = world.columns.look(rows, world.now_s)
        self._world = world

    @property
    def held(self) -> Placements:
        """Return what each job holds."""
        held = placements(self._world.seats)
        return replace(held, job=np.searchsorted(self.jobs.job_id, held.job))
