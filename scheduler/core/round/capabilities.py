"""What policies, localities, mechanisms and introspections may declare beside their one duty.

Each is a protocol of one method or property. Rounds and replays ask with ``isinstance``. One that declares nothing
works too, only without what the declaration allows, such as a faster replay.
"""

from typing import Protocol, runtime_checkable

from scheduler.core.model.cpu_memory_bounds import Needs
from scheduler.core.model.tables import BoolArray, FloatArray, IntArray, JobTable, QueueTable, ServerTable, Snapshot
from scheduler.core.packing.cpu_memory_ledger import CpuMemoryLedger
from scheduler.core.performance.resources import Filling
from scheduler.core.round.config import Mechanism, SchedulerConfig


@runtime_checkable
class Promotes(Protocol):
    """A policy that moves jobs to its top queue after a long wait."""

    def promoted(self, jobs: JobTable) -> BoolArray:
        """Return (n,) jobs whose columns ``RESET_BY_PROMOTION`` are set to 0 now."""


# Attained service, executed time and waited time: a promoted job begins again at the top.
RESET_BY_PROMOTION = ("attained_gpu_s", "executed_s", "waited_s")


@runtime_checkable
class ChangesBySelf(Protocol):
    """A policy or locality whose decision changes with time although no job arrives or ends."""

    def next_change_s(self, jobs: JobTable) -> FloatArray:
        """Return (n,) seconds until the decision about each job changes while it runs or waits; +inf for never."""


@runtime_checkable
class HoldsLeases(Protocol):
    """A policy with leases: a running job comes before all others, except in rounds in which its lease ends.

    In those rounds, and while a job waits, its key depends on a few numbers of that job alone.

    Attributes:
        lease_s: Length of a lease, seconds; 0 for none.
    """

    lease_s: float

    def key(self, shared_s: float, total_s: float, num_gpus: float, sharers: float, cluster_gpus: int) -> float:
        """Return the key of one job outside a lease, bit-identical to its element of ``priority()``.

        The key never becomes weaker when ``shared_s`` grows or ``sharers`` falls.

        Args:
            shared_s: Seconds from its arrival to its end if it ran from now on.
            total_s: Seconds that its whole work takes at speed 1.
            num_gpus: GPUs it asks for.
            sharers: Jobs that were active on average since it arrived, as in ``JobTable``.
            cluster_gpus: GPUs of all servers.
        """


@runtime_checkable
class Steady(Protocol):
    """A policy whose order does not change with time, so that a simulator need not make it anew in every round.

    The key of a job depends on the job alone. It stays as it is while the job waits, and neither starting nor running
    makes it weaker, except at the moments of ``next_change_s`` where the policy has one.
    """

    @property
    def steady(self) -> bool:
        """Return whether this holds with the present options."""


@runtime_checkable
class StepsByService(Protocol):
    """A policy whose key is a step function of a job's attained service alone.

    Its ``next_change_s`` says when running jobs reach their next step.
    """

    def service_steps(self) -> tuple[FloatArray, FloatArray]:
        """Return (k,) steps in GPU-seconds, ascending, and (k + 1,) keys: below the first step, and from each on."""


@runtime_checkable
class ByRemaining(Protocol):
    """A policy whose keys may be the remaining times of jobs."""

    @property
    def by_remaining(self) -> bool:
        """Return whether keys are ``remaining_s`` and nothing else with the present options."""


@runtime_checkable
class FillsGroups(Protocol):
    """A policy whose key of a job is the share that its group would hold just before it gets the job.

    Inside a group running jobs come first; ties go by first start, arrival, id.
    """

    def filling(self, snapshot: Snapshot) -> Filling | None:
        """Return the groups and what each job adds; None with options under which keys depend on more."""


@runtime_checkable
class FillsQueues(Protocol):
    """A policy whose key is the GPUs of the job's queue just before it gets the job, for the weight of the queue.

    ``FillsGroups`` with queues as groups; the key is ``rounded_share`` of GPUs / weight / GPUs of all servers.
    """

    def weights(self, queues: QueueTable, used: IntArray) -> FloatArray:
        """Return (k,) weights of the queues while those in ``used`` have jobs."""


@runtime_checkable
class ReadsPriority(Protocol):
    """A policy whose order depends on the priorities of jobs; pages tell users whether a new priority counts now."""

    @property
    def reads_priority(self) -> bool:
        """Return whether the order depends on priorities with the present options."""


@runtime_checkable
class MayBackfill(Protocol):
    """A policy with an option whether jobs may overtake others of their queue."""

    @property
    def backfill(self) -> bool:
        """Return whether a job may start before a job of its queue that is ahead of it and still waits.

        Without backfill only jobs that the servers or the limits of their queues could never hold are overtaken.
        """


@runtime_checkable
class GrantsByServer(Protocol):
    """A mechanism under which the cores and memory of a server's jobs depend on the jobs of that server alone."""

    def ledger(self, jobs: JobTable, servers: ServerTable, needs: Needs) -> CpuMemoryLedger | None:
        """Return the incremental equivalent of ``grant``; None where the present options do not allow it.

        Its jobs are rows of ``jobs``, a table of all jobs that will ever arrive. Equality is tested in
        tests/property/test_simulator_short_rounds.py and tests/property/test_simulator_queue_rounds.py.
        """


@runtime_checkable
class MayRepack(Protocol):
    """A mechanism that may place every job anew in each round, running ones included."""

    @property
    def repack(self) -> bool:
        """Return whether all jobs are placed anew; running jobs that may be stopped are then movable in the draft."""


@runtime_checkable
class TakesTurns(Protocol):
    """An introspection under which running jobs are suspended so that others have their turn, and resume later."""

    @property
    def takes_turns(self) -> bool:
        """Return whether jobs take turns with the present options."""


def repacks(mechanism: Mechanism) -> bool:
    """Return whether the mechanism places every job anew in each round."""
    return isinstance(mechanism, MayRepack) and mechanism.repack


def takes_turns(config: SchedulerConfig) -> bool:
    """Return whether jobs take turns under the configuration."""
    return any(isinstance(part, TakesTurns) and part.takes_turns for part in config.introspection)
