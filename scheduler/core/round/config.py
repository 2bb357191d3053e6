"""How a round decides: the policy, locality, mechanism and introspection of a configuration, and their protocols."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Protocol, runtime_checkable

from scheduler.core.model.plan import Plan
from scheduler.core.model.tables import FloatArray, IntArray, Placements, Snapshot
from scheduler.core.model.trial import Trial
from scheduler.core.packing.draft import Draft
from scheduler.core.packing.locality import Locality


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
class SharePolicy(Protocol):
    """Chooses how many GPUs each job gets; what it gives is placed in its order like fixed gangs.

    Rigid jobs (``min_gpus == max_gpus``) get all they ask for or nothing.
    """

    name: ClassVar[str]

    @property
    def preemptive(self) -> bool:
        """Whether a job with a share may stop a running one in the order in which shares are placed.

        Shares fit beside each other, so preemption is rarely needed; a job whose share is 0 stops in any case.
        """

    def shares(self, snapshot: Snapshot, num_gpus: int) -> IntArray:
        """Return (n,) GPUs of each job, 0 or between ``min_gpus`` and ``max_gpus``; at most ``num_gpus`` in all."""

    def priority(self, snapshot: Snapshot) -> FloatArray:
        """Return (n,) keys in which shares are placed, smallest first. ``snapshot.jobs.num_gpus`` holds the shares."""


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


class Introspection(Protocol):
    """Tries changes, measures them and takes back what did not help. One file in ``scheduler/introspection``.

    A round goes: ``prepare`` of every introspection, the decision, ``propose`` of every introspection, and the decision
    once more when that changed the snapshot, the configuration or the guests.
    """

    name: ClassVar[str]

    def prepare(self, scene: "Scene") -> "Scene":
        """Return the scene that the round decides about: judge the trials that are due, take back what was worse."""

    def propose(self, scene: "Scene", plan: Plan) -> "Scene":
        """Return the scene with what is tried next, given what the decision made of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """All that ``plan_round`` takes beside the snapshot.

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
        riding: Host of each guest, a job that shares its GPUs; both are rows. The decision leaves guests out.
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
