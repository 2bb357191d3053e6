"""How a round is to decide: the chosen policy, locality and mechanism with their parameters."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

from scheduler.core.model.cpu_memory_bounds import Needs
from scheduler.core.model.plan import Plan
from scheduler.core.model.tables import BoolArray, FloatArray, IntArray, JobTable, Placements, ServerTable, Snapshot
from scheduler.core.model.trial import Trial
from scheduler.core.packing.cpu_memory_ledger import Shelf
from scheduler.core.packing.draft import Draft, Seats
from scheduler.core.packing.free_gpus import Gang, Space
from scheduler.core.performance.resources import Filling


class Policy(Protocol):
    """Order of the jobs. One file in ``scheduler/policies`` and one line in its registry.

    Attributes:
        preemptive: Whether a waiting job may take the GPUs of a running job that comes after it in the order. Under
            a policy that is not, a running job keeps its GPUs until it ends or another queue takes its quota back.
    """

    name: ClassVar[str]

    @property
    def preemptive(self) -> bool:
        """See above; a class variable, or a field where it is an option."""

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) keys of ``snapshot.jobs``, smallest first.

        Ties go by first start, then arrival, then id, for every policy. The whole snapshot is there for policies that
        measure demands against the cluster, or what a queue or a user holds.
        """


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
class Leases(Protocol):
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
class SharePolicy(Protocol):
    """Chooses how many GPUs each job gets; what it gives is placed in its order like fixed gangs.

    Rigid jobs (``min_gpus == max_gpus``) get all they ask for or nothing.
    """

    name: ClassVar[str]

    @property
    def preemptive(self) -> bool:
        """Whether a job with a share may stop a running one in the order in which shares are placed.

        Shares add up, so nobody has to; a job whose share is 0 stops in any case.
        """

    def shares(self, snapshot: Snapshot, num_gpus: int) -> IntArray:
        """Return (n,) GPUs of each job, 0 or between ``min_gpus`` and ``max_gpus``; at most ``num_gpus`` in all."""

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) keys in which shares are placed, smallest first. ``snapshot.jobs.num_gpus`` holds the shares."""


class Locality(Protocol):
    """Which sets of servers a gang may use, and which it prefers. One file in ``scheduler/placement``."""

    name: ClassVar[str]

    def kinds(self, jobs: JobTable, now_s: float) -> tuple[FloatArray, ...]:
        """Return (n,) columns with all that ``seats`` looks at beside the size, such as a level of relaxation.

        Jobs of the same size whose columns are equal are treated alike: what one cannot get, no other can. Unless the
        locality is one that ``ChangesBySelf``, the columns of a job never change.
        """

    def seats(self, space: Space, gang: Gang) -> Seats:
        """Return where the gang goes in ``space``; empty when no allowed set has room. Less space never helps."""


@runtime_checkable
class LooksAtSizes(Protocol):
    """A locality that looks at the sizes of the gangs that sit on a server (``Space.sizes``)."""

    looks_at_sizes: ClassVar[bool]


@runtime_checkable
class Binds(Protocol):
    """A locality that has reasons of its own for where some jobs sit."""

    def home_of(self, job_id: int) -> int:
        """Return the row of the server on which the job costs least to start, NO_ROW where all cost the same."""

    def binds(self, job_id: int, seats: Seats) -> bool:
        """Return whether a mechanism, which knows nothing of the reason, has to leave the job on these servers."""


class Mechanism(Protocol):
    """Gives every gang of the draft its cores and memory, and places the ones that are free to move.

    Attributes:
        trims: Whether a job that is fast enough with less than its GPU-proportional share may be held to less.
        insists: Whether a job does not start with less than its demand, even where its share is enough to run.
    """

    name: ClassVar[str]
    trims: ClassVar[bool]
    insists: ClassVar[bool]

    def grant(self, draft: Draft) -> Placements:
        """Return what every job of the draft holds: its whole gang, and no server beyond its capacity."""


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


class Introspection(Protocol):
    """Tries changes, measures them and takes back what did not help. One file in ``scheduler/introspection``.

    A round goes: ``prepare`` of every introspection, the decision, ``propose`` of every introspection, and the decision
    once more when that changed the snapshot or the configuration.
    """

    name: ClassVar[str]

    def prepare(self, scene: "Scene") -> "Scene":
        """Return the scene that the round decides about: judge the trials that are due, take back what was worse."""

    def propose(self, scene: "Scene", plan: Plan) -> "Scene":
        """Return the scene with what is tried next, given what the decision made of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """What ``plan_round`` is told beside the snapshot.

    Attributes:
        preempt: Whether a preemptive policy may stop running jobs for jobs before them in the order.
        reclaim_after_s: How long a job within the quota of its queue waits before it may stop a borrower, seconds.
        min_run_s: A placement younger than this is not stopped by the order, seconds; prevents thrashing.
        introspection: What is tried on running jobs, in this order.
    """

    policy: Policy | SharePolicy
    locality: Locality
    mechanism: Mechanism
    preempt: bool = True
    reclaim_after_s: float = 0.0
    min_run_s: float = 0.0
    introspection: tuple[Introspection, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """What a round is about to decide, as introspection sees and changes it.

    Attributes:
        snapshot: The snapshot as if everything tried so far were true: moved jobs are held where they move to, grown
            ones hold what they grow to. Servers ascend by id.
        config: How the round decides; its policy and locality may be wrapped.
        riding: Guests by row, with the row of the job whose GPUs they share. The decision does not see guests.
        must_run: Jobs that have to get GPUs for what is proposed to make sense; else nothing of it is done.
        trials: The memory that the plan will carry.
        again_at_s: When the next round is wanted at the latest; +inf for whenever.
    """

    snapshot: Snapshot
    config: SchedulerConfig
    riding: Mapping[int, int] = field(default_factory=dict)
    must_run: frozenset[int] = frozenset()
    trials: tuple[Trial, ...] = ()
    again_at_s: float = math.inf
