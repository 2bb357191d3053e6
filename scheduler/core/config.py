"""How a round is to decide: the chosen policy, locality and mechanism with their parameters."""

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable

from scheduler.core.packing.draft import Draft, Seats
from scheduler.core.packing.space import Fits, Space
from scheduler.core.tables import BoolArray, FloatArray, JobTable, Placements


class Policy(Protocol):
    """Order of the jobs. One file in ``scheduler/policies`` and one line in its registry.

    Attributes:
        preemptive: Whether a waiting job may take the GPUs of a running job that comes after it in the order. Under
            a policy that is not, a running job keeps its GPUs until it ends or another queue takes its quota back.
    """

    name: ClassVar[str]
    preemptive: ClassVar[bool]

    def priority(self, jobs: JobTable, now_s: float) -> FloatArray:
        """Return (n,) keys, smallest first; ties go by first start, then arrival, then id, for every policy."""


@runtime_checkable
class Promotes(Protocol):
    """A policy that lets jobs begin again at the top after a long wait."""

    def promoted(self, jobs: JobTable) -> BoolArray:
        """Return (n,) jobs whose attained service, executed and waited time start again at 0 from now on."""


@runtime_checkable
class ChangesBySelf(Protocol):
    """A policy whose keys change while nothing arrives or ends."""

    def next_change_s(self, jobs: JobTable) -> FloatArray:
        """Return (n,) seconds until the key of each job changes when it goes on running or waiting; +inf for never."""


class Locality(Protocol):
    """Which sets of servers a gang may use, and which it prefers."""

    name: ClassVar[str]

    def seats(self, space: Space, *, num_gpus: int, max_servers: int, fits: Fits | None) -> Seats:
        """Return where the gang goes in ``space``; empty when no allowed set has room.

        Args:
            space: Free GPUs by server.
            num_gpus: Size of the gang.
            max_servers: Most servers it may use, 0 for any number.
            fits: Whether cores and memory of a server allow that many GPUs of this gang on it; None: always.
        """


class Mechanism(Protocol):
    """Gives every gang of the draft its cores and memory, and places the ones that are free to move.

    Attributes:
        trims: Whether a job that is fast enough with less than its GPU-proportional share may be held to less.
    """

    name: ClassVar[str]
    trims: ClassVar[bool]

    def grant(self, draft: Draft) -> Placements:
        """Return what every job of the draft holds: its whole gang, and no server beyond its capacity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """What ``plan_round`` is told beside the snapshot.

    Attributes:
        preempt: Whether a preemptive policy may stop running jobs for jobs before them in the order.
        reclaim_after_s: How long a job within the quota of its queue waits before it may stop a borrower, seconds.
        min_run_s: A placement younger than this is not stopped by the order, seconds; prevents thrashing.
    """

    policy: Policy
    locality: Locality
    mechanism: Mechanism
    preempt: bool = True
    reclaim_after_s: float = 0.0
    min_run_s: float = 0.0
