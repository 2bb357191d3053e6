"""Lend GPUs that shares leave free to jobs without a share.

A share policy gives numbers of GPUs, and a share may fit on no servers, or only in part. Jobs without a share use what
stays free: each gets its least number, running jobs first and where they are, then the others in the order of the
policy. A loan gives no right: the policy is asked as if the borrower waited, and the borrower leaves when a share fits
on its GPUs. A job that may not be stopped keeps them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.core.model.queue_tree import QueueTree
from scheduler.core.model.tables import BoolArray, Snapshot
from scheduler.core.packing.board import Board
from scheduler.core.packing.elastic_seats import is_inside
from scheduler.core.round.config import SchedulerConfig
from scheduler.core.round.shares.elastic import Shared, reseat_on


@dataclass(frozen=True, slots=True, kw_only=True)
class LentSeats:
    """Jobs that got seats without a share, rows of the JobTable.

    Attributes:
        at_home: Jobs that go on where they run, some of them with fewer GPUs.
        elsewhere: Jobs that start.
    """

    at_home: frozenset[int] = frozenset()
    elsewhere: frozenset[int] = frozenset()


def lend(shared: Shared, config: SchedulerConfig, tree: QueueTree, board: Board, claiming: BoolArray) -> LentSeats:
    """Seat jobs without a share on what is free on the board, then on what jobs outside it leave, and return them.

    Args:
        shared: The shares.
        config: How the round decides.
        tree: The queues.
        board: Which job sits where, after all jobs with a share are seated.
        claiming: (n,) jobs with a share, seated or not.
    """
    snapshot = shared.snapshot
    if not shared.unshared.any():
        return LentSeats()
    rows = shared.order[shared.unshared[shared.order]].tolist()
    may = _within_limits(snapshot, tree, board, claiming)
    reseat = reseat_on(board, snapshot, config)
    lent = reseat.lend(rows, shared.home, may) if board.space.total else []
    leaving = [row for row in range(len(snapshot.jobs), len(board.num_gpus)) if row in board.seats]
    if leaving and len(lent) < len(rows):
        left = {row: board.leave(row) for row in leaving}
        lent += reseat.lend([row for row in rows if row not in board.seats], shared.home, may)
        for row, seats in left.items():
            if reseat.is_free(row, seats):  # no borrower took its place
                board.sit(row, seats)
    stays = frozenset(row for row in lent if is_inside(board.seats[row], shared.home.get(row, ())))
    return LentSeats(at_home=stays, elsewhere=frozenset(lent) - stays)


def _within_limits(snapshot: Snapshot, tree: QueueTree, board: Board, claiming: BoolArray) -> Callable[[int], bool]:
    """Return a test whether the queues of a job, and the limit of its owner, allow it beside the other jobs."""
    jobs, queues = snapshot.jobs, snapshot.queues
    limits: list[int] = queues.user_max_gpus[jobs.queue].tolist()
    owner: list[tuple[int, int]] = [*zip(jobs.queue.tolist(), jobs.owner.tolist(), strict=True)]

    def may(row: int) -> bool:
        gpus = board.num_gpus[row]
        if any(board.held_gpus[node] + gpus > tree.cap[node] for node in board.path(row)):
            return False
        if not limits[row]:
            return True
        mates = [other for other in range(len(jobs)) if owner[other] == owner[row]]
        return (
            gpus + sum(board.num_gpus[mate] for mate in mates if claiming[mate] or mate in board.seats) <= limits[row]
        )

    return may
