"""Rounds in which at most one job asks for GPUs, nobody waits, and free GPUs will do: its seats need no whole round.

Nobody can stand in the way of a lone claim that the caps of its queues allow. It finds the servers that the locality
names, everybody else keeps theirs, and neither the order of the policy nor any quota matters. All the rest, the claim
that finds no room included, is for ``plan_round``.
"""

import numpy as np

from scheduler.core.changes import Changes
from scheduler.core.config import ChangesBySelf, GrantsByServer, LooksAtSizes, SchedulerConfig, SharePolicy
from scheduler.core.feasible import Shapes, shapes_of
from scheduler.core.needs import needs_of
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.shelf import ShareShelf
from scheduler.core.packing.space import Gang, Site, Space
from scheduler.core.queues import queue_tree
from scheduler.core.tables import JobTable, QueueTable, ServerTable
from scheduler.simulator.columns import Columns
from scheduler.simulator.world import World


def calm_rounds(
    columns: Columns, servers: ServerTable, queues: QueueTable, config: SchedulerConfig
) -> "CalmRounds | None":
    """Return the planner, or None where a lone claim may change more than its own grant."""
    locality, mechanism = config.locality, config.mechanism
    if isinstance(config.policy, SharePolicy) or isinstance(locality, ChangesBySelf | LooksAtSizes):
        return None
    if config.introspection or not len(columns) or not len(servers) or (np.diff(servers.server_id) <= 0).any():
        return None
    jobs = columns.look(np.arange(len(columns)), 0.0)
    needs = needs_of(jobs, servers, trims=mechanism.trims, insists=mechanism.insists)
    shelf = mechanism.shelf(jobs, servers, needs) if isinstance(mechanism, GrantsByServer) else None
    if needs.tight or not isinstance(shelf, ShareShelf):
        return None
    shapes = shapes_of(jobs, servers, needs, locality.kinds(jobs, 0.0))
    return CalmRounds(jobs, servers, queues, config, shapes, shelf)


class CalmRounds:
    """Seats lone claims; jobs are rows of the workload."""

    def __init__(
        self,
        jobs: JobTable,
        servers: ServerTable,
        queues: QueueTable,
        config: SchedulerConfig,
        shapes: Shapes,
        shelf: ShareShelf,
    ) -> None:
        self._tree, self._locality, self._shelf, self._shapes = queue_tree(queues), config.locality, shelf, shapes
        self._free: list[int] = servers.num_gpus.tolist()
        self._site = Site(gpus=self._free, rack=servers.rack.tolist())
        self._queue: list[int] = jobs.queue.tolist()
        self._gpus: list[int] = jobs.num_gpus.tolist()
        self._max_servers: list[int] = jobs.max_servers.tolist()

    def plan(self, world: World) -> Changes | None:
        """Return what the round changes when nobody waited before it; None when it takes a whole round to tell."""
        claims = [row for row in world.arrived if row not in world.seats and not world.columns.ended[row]]
        if not claims:
            return Changes()
        if len(claims) > 1 or not self._shapes.possible[claims[0]] or self._over_cap(claims[0], world):
            return None
        seats = self._seats(claims[0], world)
        return Changes(started=self._shelf.sit({claims[0]: seats}, (), [])) if seats else None

    def _over_cap(self, row: int, world: World) -> bool:
        held = [0] * len(self._tree.cap)
        for other in (row, *world.seats):
            for node in self._tree.paths[self._queue[other]]:
                held[node] += self._gpus[other]
        return any(held[node] > self._tree.cap[node] for node in self._tree.paths[self._queue[row]])

    def _seats(self, row: int, world: World) -> Seats:
        free = list(self._free)
        for grant in world.seats.values():
            for server, gpus, _, _ in grant:
                free[server] -= gpus
        gang = Gang(
            num_gpus=self._gpus[row],
            max_servers=self._max_servers[row],
            least_servers=int(self._shapes.least_servers[row]),
            kind=self._shapes.kind[row],
            fits=None,
        )
        return self._locality.seats(Space(free, self._site), gang)
