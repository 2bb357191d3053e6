"""Who runs and where: admission, order and selection put together."""

from dataclasses import dataclass, replace

import numpy as np

from scheduler.core.model.cpu_memory_bounds import Needs
from scheduler.core.model.queue_tree import QueueTree, limiting, subtree_sums
from scheduler.core.model.tables import NO_ROW, BoolArray, IntArray, Snapshot
from scheduler.core.packing.board import Board
from scheduler.core.packing.kept_placements import can_stay
from scheduler.core.packing.locality import LooksAtSizes
from scheduler.core.packing.selection import Demands, Selection
from scheduler.core.packing.walk import Walk
from scheduler.core.round.claim_order import Line, line_up
from scheduler.core.round.config import SchedulerConfig
from scheduler.core.round.feasibility import Shapes, gangs_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The jobs that run.

    Attributes:
        line: The order of the round.
        selection: Who begins where, who leaves, who was refused.
        board: Who sits where after that.
        seated: (n,) running jobs that could have kept their servers.
    """

    line: Line
    selection: Selection
    board: Board
    seated: BoolArray


def choose(
    snapshot: Snapshot, config: SchedulerConfig, needs: Needs, shapes: Shapes, tree: QueueTree, order: IntArray
) -> Chosen:
    """Return who runs. Servers are ascending by id; ``order`` are job rows in the order of the policy."""
    jobs = snapshot.jobs
    seated = can_stay(snapshot, needs, order)
    board = Board(
        jobs=jobs,
        servers=snapshot.servers,
        needs=needs,
        tree=tree,
        held=snapshot.held.at(seated[snapshot.held.job]),
        releasing=snapshot.releasing,
        by_size=isinstance(config.locality, LooksAtSizes),
    )
    demands = Demands(
        rows=np.arange(len(jobs)),
        shape=shapes.shape.tolist(),
        gangs=gangs_of(jobs, shapes),
        limits=limiting(tree, subtree_sums(tree, jobs.queue, jobs.num_gpus)),
    )
    line, selection = attempts(
        snapshot, config, tree, board=board, demands=demands, order=order, possible=shapes.possible, seated=seated
    )
    return Chosen(line=line, selection=selection, board=board, seated=seated)


def attempts(
    snapshot: Snapshot,
    config: SchedulerConfig,
    tree: QueueTree,
    *,
    board: Board,
    demands: Demands,
    order: IntArray,
    possible: BoolArray,
    seated: BoolArray,
) -> tuple[Line, Selection]:
    """Line the jobs up and seat them on the board.

    Jobs that a quota covers but no servers can hold would keep the quota from jobs of the same queue that do fit.
    Where that leaves a queue below its quota beside borrowers, the choice is made once more without them.

    Args:
        snapshot: What the round looks at; of the placements, what the policy looks at.
        config: How it decides.
        tree: The queues.
        board: Who sits where.
        demands: What the jobs ask for.
        order: (n,) job rows in the order of the policy.
        possible: (n,) jobs that could run at all.
        seated: (n,) running jobs that could keep their servers.
    """
    line = line_up(snapshot, config, tree, order=order, possible=possible, seated=seated)
    walk = Walk(board, demands, line.claims, tree, config.locality)
    first = walk.select()
    if not _leaves_quota_unused(snapshot, tree, line, first, board, seated):
        return line, first
    walk.undo()
    refused = np.zeros_like(seated)
    refused[list(first.refusals)] = True
    refused &= line.admission.cover != NO_ROW
    kept = seated.copy()
    kept[list(first.displaced)] = False
    line = line_up(
        snapshot, config, tree, order=order, possible=possible, seated=seated, passed_over=refused, stays=kept
    )
    second = Walk(board, demands, line.claims, tree, config.locality).select()
    still = {row: first.refusals[row] for row in np.flatnonzero(refused).tolist() if row in second.refusals}
    return line, replace(second, refusals={**second.refusals, **still})


def _leaves_quota_unused(
    snapshot: Snapshot, tree: QueueTree, line: Line, selection: Selection, board: Board, seated: BoolArray
) -> bool:
    """Return whether a job waits uncovered beside borrowers while a queue of its path has quota left for it."""
    jobs, cover = snapshot.jobs, line.admission.cover
    left = [quota - held for quota, held in zip(tree.quota, board.held_gpus, strict=True)]
    most_left = [max(left[node] for node in path) for path in tree.paths]
    if max(most_left, default=0) <= 0 or not selection.refusals:
        return False
    waits = np.array(
        [row for row, refusal in selection.refusals.items() if refusal.full_queue == NO_ROW], dtype=np.int64
    )
    waits = waits[cover[waits] == NO_ROW]
    if not (jobs.num_gpus[waits] <= np.array(most_left, dtype=np.int64)[jobs.queue[waits]]).any():
        return False
    runs = seated.copy()
    runs[list(selection.displaced)] = False
    runs[list(selection.started)] = True
    return bool((runs & (cover == NO_ROW)).any())
