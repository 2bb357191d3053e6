"""Admission, order and seats of one round: which jobs start where, which leave, which are refused.

Live rounds and replays of many queues both call ``seat_jobs``; tests/property/test_plan_properties.py and the oracle
of tests/oracle hold what it decides.
"""

from dataclasses import replace

import numpy as np

from scheduler.core.model.queue_tree import QueueTree
from scheduler.core.model.tables import NO_ROW, BoolArray, IntArray, Snapshot
from scheduler.core.packing.board import Board
from scheduler.core.packing.selection import Selection
from scheduler.core.packing.walk import Walk
from scheduler.core.round.claim_order import Line, line_up
from scheduler.core.round.config import SchedulerConfig
from scheduler.core.round.round_state import RoundState


def seat_jobs(
    snapshot: Snapshot,
    config: SchedulerConfig,
    state: RoundState,
    *,
    rows: IntArray,
    order: IntArray,
    possible: BoolArray,
    seated: BoolArray,
    behind: IntArray | None = None,
) -> tuple[Line, Selection]:
    """Line the jobs up and seat them on the board of the state.

    Jobs that a quota covers but no servers can hold would keep the quota from jobs of the same queue that do fit.
    Where that leaves a queue below its quota beside borrowers, the choice is made once more without them.

    Args:
        snapshot: What the round looks at; of the placements, what the policy looks at.
        config: How it decides.
        state: What the jobs ask for, and where running ones sit; its board is changed.
        rows: (n,) row of the board of each job of the snapshot, ascending.
        order: (n,) job rows of the snapshot in the order of the policy.
        possible: (n,) jobs that could run at all.
        seated: (n,) running jobs that could keep their servers.
        behind: See ``admit``.
    """
    tree, board, demands = state.tree, state.board, state.walk_demands(rows, snapshot.jobs, behind)
    line = line_up(snapshot, config, tree, order=order, possible=possible, seated=seated, behind=behind)
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
        snapshot,
        config,
        tree,
        order=order,
        possible=possible,
        seated=seated,
        passed_over=refused,
        stays=kept,
        behind=behind,
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
