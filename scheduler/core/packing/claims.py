"""The claims of a round: which jobs ask for GPUs, in which order, and which jobs each may displace.

`core/round/claim_order.py` makes them from the policy and the quotas, `Walk` serves them.
"""

from collections.abc import Callable
from dataclasses import dataclass

from scheduler.core.model.tables import BoolArray, IntArray

# The turn of a row that does not become committed in this part of the walk.
NO_TURN = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class DisplaceableJobs:
    """Jobs that may be displaced in a part of the walk, least important first.

    Attributes:
        job: (s,) rows of the JobTable.
        turn: (s,) when the walk comes past each, after which it keeps its seats.
        locked: (s,) jobs that the order may not displace, only a queue that takes its quota back.
    """

    job: IntArray
    turn: IntArray
    locked: BoolArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of the walk, in which jobs have their turns one after another.

    Attributes:
        waiting: (w,) jobs that do not sit, by turn.
        waiting_turn: (w,) their turns, ascending.
        seated: (x,) jobs that sit and may be displaced until their turn comes, by turn.
        seated_turn: (x,) their turns, ascending.
        locked: (y,) jobs that sit and keep their seats throughout.
        displaceable: Returns the jobs that may be displaced; called when a claim needs them.
    """

    waiting: IntArray
    waiting_turn: IntArray
    seated: IntArray
    seated_turn: IntArray
    locked: IntArray
    displaceable: Callable[[], DisplaceableJobs]


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """All claims of a round. Jobs are rows of the JobTable.

    Attributes:
        covered: The jobs within some quota, in the order of the policy.
        others: The other jobs, strongest first. Covered jobs that found nothing to take back stand in line with them.
        place: (n,) turn of each job among the others.
        cover: (n,) queue whose quota covers the job, NO_ROW for none.
        may_reclaim: (n,) covered jobs that may displace jobs of other queues, locked ones included.
        in_line: Whether no job starts before one of its queue that comes first and waits.
    """

    covered: Part
    others: Part
    place: IntArray
    cover: IntArray
    may_reclaim: BoolArray
    in_line: bool
