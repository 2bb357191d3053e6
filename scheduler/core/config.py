"""How a round is to decide: the chosen policy, locality and mechanism with their parameters."""

from dataclasses import dataclass
from typing import ClassVar, Protocol

from scheduler.core.tables import FloatArray, IntArray, JobTable, ServerTable, Snapshot


class Policy(Protocol):
    """Order of the jobs. One file in ``scheduler/policies`` and one line in its registry."""

    name: ClassVar[str]

    def priority(self, jobs: JobTable, now_s: float) -> FloatArray:
        """Return (n,) keys, smallest first; ties go by first start, then arrival, then id."""


class Locality(Protocol):
    """Which sets of servers a gang may use, and which it prefers."""

    name: ClassVar[str]

    def servers_for(
        self, *, num_gpus: int, max_servers: int, free_gpus: IntArray, servers: ServerTable
    ) -> IntArray | None:
        """Return (m,) GPUs to take on each server, or None when no allowed set has enough free GPUs now."""


class Mechanism(Protocol):
    """Packs the ordered gangs on servers and gives each its cores and memory."""

    name: ClassVar[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class SchedulerConfig:
    """What ``plan_round`` is told beside the snapshot.

    Attributes:
        preempt: Whether running jobs may be stopped for jobs before them in the order (False for FIFO-like policies
            is decided by the policy itself, this switch only forbids it altogether).
        reclaim_after_s: How long a borrower may keep GPUs after their owner has fitting work, seconds.
        min_run_s: A placement younger than this is not preempted by order, seconds; stops thrashing.
    """

    policy: Policy
    locality: Locality
    mechanism: Mechanism
    preempt: bool = True
    reclaim_after_s: float = 0.0
    min_run_s: float = 0.0


__all__ = ["Locality", "Mechanism", "Policy", "SchedulerConfig", "Snapshot"]
