"""Who runs and where: admission, order and selection put together."""

from dataclasses import dataclass, replace

import numpy as np

from scheduler.core.config import LooksAtSizes, SchedulerConfig
from scheduler.core.feasible import Shapes
from scheduler.core.held import can_stay, seats_by_job
from scheduler.core.line import Line, line_up, policy_order
from scheduler.core.needs import Needs
from scheduler.core.packing.board import Board
from scheduler.core.packing.select import Selection, select
from scheduler.core.queues import QueueTree, subtree_sums
from scheduler.core.tables import NO_ROW, BoolArray, Placements, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """The jobs that run.

    Attributes:
        line: The order of the round.
        selection: Who sits where, who leaves, who was refused.
        seated: (n,) running jobs that could have kept their servers.
    """

    line: Line
    selection: Selection
    seated: BoolArray


def choose(snapshot: Snapshot, config: SchedulerConfig, needs: Needs, shapes: Shapes, tree: QueueTree) -> Chosen:
    """Return who runs. Servers are ascending by id.

    Jobs that a quota covers but no servers can hold would keep the quota from jobs of the same queue that do fit.
    Where that leaves a queue below its quota beside borrowers, the choice is made once more without them.
    """
    order = policy_order(snapshot, config)
    seated = can_stay(snapshot, needs, order)
    stay: list[bool] = seated.tolist()
    held = {row: seats for row, seats in seats_by_job(snapshot.held).items() if stay[row]}

    def attempt(passed_over: BoolArray, stays: BoolArray) -> tuple[Line, Selection]:
        line = line_up(snapshot, config, tree, shapes, order=order, seated=seated, passed_over=passed_over, stays=stays)
        board = Board(
            jobs=snapshot.jobs,
            servers=snapshot.servers,
            needs=needs,
            tree=tree,
            held=held,
            releasing=_releasing(snapshot.releasing),
            by_size=isinstance(config.locality, LooksAtSizes),
        )
        return line, select(board, line.claims, tree, config.locality, num_jobs=len(snapshot.jobs))

    line, selection = attempt(np.zeros_like(seated), seated)
    if _leaves_quota_unused(snapshot, tree, line, selection):
        refused = np.zeros_like(seated)
        refused[list(selection.refusals)] = True
        refused &= line.admission.cover != NO_ROW
        kept = np.zeros_like(seated)
        kept[list(selection.kept)] = True
        first = selection.refusals
        line, selection = attempt(refused, kept)
        still = {row: first[row] for row in np.flatnonzero(refused).tolist() if row in selection.refusals}
        selection = replace(selection, refusals={**selection.refusals, **still})
    return Chosen(line=line, selection=selection, seated=seated)


def _releasing(releasing: Placements) -> list[tuple[int, int, float, float]]:
    """Return rows of (server, GPUs, cores, bytes)."""
    columns = (releasing.server, releasing.num_gpus, releasing.cpus, releasing.memory_bytes)
    return [*zip(*(column.tolist() for column in columns), strict=True)]


def _leaves_quota_unused(snapshot: Snapshot, tree: QueueTree, line: Line, selection: Selection) -> bool:
    """Return whether a job waits uncovered beside borrowers while a queue of its path has quota left for it."""
    jobs, cover = snapshot.jobs, line.admission.cover
    runs = np.zeros(len(jobs), dtype=np.bool_)
    runs[list(selection.seats)] = True
    waits = np.zeros(len(jobs), dtype=np.bool_)
    waits[[row for row, refusal in selection.refusals.items() if refusal.full_queue == NO_ROW]] = True
    waits &= cover == NO_ROW
    if not waits.any() or not (runs & (cover == NO_ROW)).any():
        return False
    held = subtree_sums(tree, jobs.queue[runs], jobs.num_gpus[runs])
    left = np.array(tree.quota, dtype=np.int64) - held
    most_left = np.array([left[list(path)].max() for path in tree.paths], dtype=np.int64)
    return bool((jobs.num_gpus[waits] <= most_left[jobs.queue[waits]]).any())
