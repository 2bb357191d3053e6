"""What a policy, locality or mechanism may declare beside its one duty, each a protocol of one method or property.

A round and a replay ask with ``isinstance``: what declares nothing works, only without what the declaration allows,
such as a faster replay.
"""

from typing import Protocol, runtime_checkable

from scheduler.core.model.cpu_memory_bounds import Needs
from scheduler.core.model.tables import BoolArray, FloatArray, JobTable, ServerTable, Snapshot
from scheduler.core.packing.cpu_memory_ledger import Shelf
from scheduler.core.performance.resources import Filling
from scheduler.core.round.config import Mechanism


@runtime_checkable
class Promotes(Protocol):
    """A policy that lets jobs begin again at the top after a long wait."""

    def promoted(self, jobs: JobTable) -> BoolArray:
        """Return (n,) jobs whose attained service, executed and waited time start again at 0 from now on."""


@runtime_checkable
class ChangesBySelf(Protocol):
    """A policy or locality that decides otherwise after a while although nothing arrived or ended."""

    def next_change_s(self, jobs: JobTable) -> FloatArray:
        """Return (n,) seconds until each job counts otherwise when it goes on running or waiting; +inf for never."""


@runtime_checkable
class HoldsLeases(Protocol):
    """A policy under which a running job comes before all others but in rounds in which a lease of it ends.

    Otherwise its key depends on a few numbers of the job alone, and so does the key of a job that waits.

    Attributes:
        lease_s: Length of a lease, seconds; 0 for none.
    """

    lease_s: float

    def key(self, shared_s: float, total_s: float, num_gpus: float, sharers: float, cluster_gpus: int) -> float:
        """Return the key of one job outside a lease, to the bit what ``priority`` has in its column.

        A larger ``shared_s`` never makes it weaker, fewer ``sharers`` neither.

        Args:
            shared_s: Seconds from its arrival to its end if it ran from now on.
            total_s: Seconds that its whole work takes at speed 1.
            num_gpus: GPUs it asks for.
            sharers: Jobs that were active on average since it arrived, as of a ``JobTable``.
            cluster_gpus: GPUs of all servers.
        """


@runtime_checkable
class Steady(Protocol):
    """A policy whose line does not move by itself, so that a simulator need not look at all of it in every round.

    The key of a job depends on the job alone. It stays as it is while the job waits, and neither starting nor running
    makes it weaker, except at the moments of ``next_change_s`` where the policy has one.
    """

    @property
    def steady(self) -> bool:
        """Return whether all of this holds with the present options."""


@runtime_checkable
class StepsByService(Protocol):
    """A policy that looks at nothing but the attained service of a job, and counts it otherwise from some services on.

    Its ``next_change_s`` says when running jobs get to each of them.
    """

    def service_steps(self) -> tuple[FloatArray, FloatArray]:
        """Return (k,) services in GPU-seconds, ascending, and (k + 1,) keys: below the first, and from each on."""


@runtime_checkable
class ByRemaining(Protocol):
    """A policy whose keys may be the times that jobs have left."""

    @property
    def by_remaining(self) -> bool:
        """Return whether they are, with the present options: ``remaining_s`` and nothing else."""


@runtime_checkable
class FillsGroups(Protocol):
    """A policy whose keys are the shares that groups of jobs hold just before they get each job.

    Inside a group running jobs come first, then who started first, arrived first, has the smaller id.
    """

    def filling(self, snapshot: Snapshot) -> Filling | None:
        """Return the groups and what each job adds; None with options under which anything else counts too."""


@runtime_checkable
class MayBackfill(Protocol):
    """A policy under which it is an option whether jobs may overtake others of their queue."""

    @property
    def backfill(self) -> bool:
        """Return whether a job may start before one of its queue that comes first and still waits.

        Where it may not, only jobs that the servers or the limits of their queues could never hold are overtaken.
        """


@runtime_checkable
class GrantsByServer(Protocol):
    """A mechanism under which the cores and memory of a server depend on what sits there alone."""

    def shelf(self, jobs: JobTable, servers: ServerTable, needs: Needs) -> Shelf | None:
        """Return what does the same as ``grant`` from round to round; None where the present options do not allow it.

        Jobs are rows of ``jobs``, a table of all jobs that will ever come.
        """


@runtime_checkable
class MayRepack(Protocol):
    """A mechanism that may place every job anew in each round, running ones included."""

    @property
    def repack(self) -> bool:
        """Return whether it does; running jobs that may be stopped are then among the movable ones of the draft."""


def repacks(mechanism: Mechanism) -> bool:
    """Return whether the mechanism places every job anew in each round."""
    return isinstance(mechanism, MayRepack) and mechanism.repack
