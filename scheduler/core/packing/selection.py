"""What goes into a ``Walk`` beside the claims, and what comes out of it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.core.model.tables import NO_ROW, IntArray
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.free_gpus import Gang


class Refusal(NamedTuple):
    """Why a claim found no seats.

    Attributes:
        full_queue: Queue that already holds the most it may, NO_ROW when that is not the cause.
        open_gpus: GPUs that the job could have had if they were on the right servers.
        starved: Whether there was room by GPUs alone, without the cores or memory.
        behind: Job of the same queue that has to start first, NO_ROW when that is not the cause.
    """

    full_queue: int
    open_gpus: int
    starved: bool
    behind: int = NO_ROW


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """The outcome of the walk. Jobs are rows of the JobTable.

    Attributes:
        started: New seats of jobs that begin on them, in the order in which they took them.
        displaced: Running jobs that leave their seats, with the job that takes them.
        reclaimed: Those of them that borrowed and that a covered job of another queue displaced.
        on_free: Jobs that got new seats and displaced no job.
        refusals: Why each other job found no seats.
        last_departure: Turn among the jobs without quota after which no running job left its seats; -1 when none did
            for any of them.
    """

    started: dict[int, Seats]
    displaced: dict[int, int]
    reclaimed: set[int]
    on_free: set[int]
    refusals: dict[int, Refusal]
    last_departure: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Demands:
    """What jobs ask for, by row of the board.

    Attributes:
        rows: (n,) row of the board of each job of the JobTable, ascending.
        shape: Shape of each row.
        gangs: What jobs of each shape ask for; where cores or memory may bind, what they fit on is added.
        limits: For each queue those of its path that are asked for more than they may hold, nearest first.
    """

    rows: IntArray
    shape: Sequence[int]
    gangs: Sequence[Gang]
    limits: list[tuple[int, ...]]
