"""What a round seats jobs with: what the jobs ask for, and the board with the running jobs on their GPUs.

``plan_round`` builds a ``RoundState`` for each round; a replay of many queues keeps one from round to round
(``QueueRounds``). That both give the same plans is tested in tests/property/test_simulator_queue_rounds.py.
"""

from dataclasses import dataclass

import numpy as np

from scheduler.core.model.barred import NONE_BARRED, Barred
from scheduler.core.model.cpu_memory_bounds import Needs, needs_of
from scheduler.core.model.queue_tree import QueueTree, limiting, subtree_sums
from scheduler.core.model.tables import BoolArray, IntArray, JobTable, Placements, ServerTable, Snapshot
from scheduler.core.packing.board import Board
from scheduler.core.packing.free_gpus import Gang
from scheduler.core.packing.kept_placements import can_stay
from scheduler.core.packing.locality import LooksAtSizes
from scheduler.core.packing.selection import Demands
from scheduler.core.round.config import SchedulerConfig
from scheduler.core.round.feasibility import Shapes, gangs_of, shapes_of


@dataclass(frozen=True, slots=True, kw_only=True)
class JobDemands:
    """What the jobs of a table ask for.

    Attributes:
        needs: Cores and memory that each must have.
        shapes: Jobs that ask for the same are one shape.
        shape: The shape of each job.
        gangs: What jobs of each shape look for.
    """

    needs: Needs
    shapes: Shapes
    shape: list[int]
    gangs: list[Gang]


def job_demands(
    jobs: JobTable, servers: ServerTable, config: SchedulerConfig, *, now_s: float, barred: Barred = NONE_BARRED
) -> JobDemands:
    """Return what the jobs ask for on these servers."""
    mechanism = config.mechanism
    needs = needs_of(jobs, servers, trims=mechanism.trims, insists=mechanism.insists, barred=barred)
    shapes = shapes_of(jobs, servers, needs, config.locality.kinds(jobs, now_s))
    return JobDemands(needs=needs, shapes=shapes, shape=shapes.shape.tolist(), gangs=gangs_of(jobs, shapes))


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundState:
    """What jobs ask for, and which of them sit where.

    Attributes:
        tree: The queues.
        demands: What each row of the board asks for.
        board: Where rows sit, and what is free.
        seated: (n,) running jobs that could keep their servers when the state was built.
    """

    tree: QueueTree
    demands: JobDemands
    board: Board
    seated: BoolArray

    def walk_demands(self, rows: IntArray, jobs: JobTable, behind: IntArray | None = None) -> Demands:
        """Return what jobs ask for, one row of the board for each; it is what a walk looks at.

        For ``behind`` see ``admit``.
        """
        demand = subtree_sums(self.tree, jobs.queue, jobs.num_gpus)
        if behind is not None:
            demand += subtree_sums(self.tree, np.arange(len(behind)), behind)
        limits = limiting(self.tree, demand)
        return Demands(rows=rows, shape=self.demands.shape, gangs=self.demands.gangs, limits=limits)


def round_state(
    snapshot: Snapshot, config: SchedulerConfig, tree: QueueTree, demands: JobDemands, *, order: IntArray
) -> RoundState:
    """Return the state with those running jobs seated that can stay where they are.

    Args:
        snapshot: Jobs, servers and placements; servers are ascending by id.
        config: How the round decides.
        tree: The queues of the snapshot.
        demands: What its jobs ask for.
        order: (n,) job rows in the order of the policy: the first ones stay where not all can.
    """
    seated = can_stay(snapshot, demands.needs, order)
    board = board_of(snapshot, config, tree, demands.needs, snapshot.held.at(seated[snapshot.held.job]))
    return RoundState(tree=tree, demands=demands, board=board, seated=seated)


def board_of(snapshot: Snapshot, config: SchedulerConfig, tree: QueueTree, needs: Needs, held: Placements) -> Board:
    """Return a board on which the jobs of the snapshot sit as in ``held``."""
    return Board(
        jobs=snapshot.jobs,
        servers=snapshot.servers,
        needs=needs,
        tree=tree,
        held=held,
        releasing=snapshot.releasing,
        by_size=isinstance(config.locality, LooksAtSizes),
    )
