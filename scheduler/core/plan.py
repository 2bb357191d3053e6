"""What a round decides: grants, preemptions and, for everybody else, the reason to wait."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

import numpy as np

from scheduler.core.tables import NO_ROW, IntArray, Placements, Snapshot, seat_order
from scheduler.core.trial import Trial

# Numbers that belong to a reason. Keys carry their unit; values are plain JSON numbers or short strings.
Evidence = dict[str, float | int | str]


class WaitReason(StrEnum):
    """Why a job does not run. A closed list; every member has a sentence in ``scheduler/core/reasons.py``."""

    NEW = "new"  # no round has looked at it yet
    QUEUE_QUOTA = "queue_quota"  # its queue (or a parent) holds its quota and may not borrow now
    QUEUE_MAX = "queue_max"  # its queue holds the most it may ever hold
    USER_LIMIT = "user_limit"  # its owner holds, or is before it in the order for, all that one user may hold there
    NO_CAPACITY = "no_capacity"  # fewer GPUs are free than it asks for, jobs before it took the rest
    BEHIND_POLICY_ORDER = "behind_policy_order"  # GPUs exist, jobs before it in the order hold them
    FRAGMENTATION = "fragmentation"  # enough GPUs are free, but not on few enough servers
    CPU_OR_MEMORY = "cpu_or_memory"  # the GPUs are free where the cores or bytes it insists on are not
    NEVER_FEASIBLE = "never_feasible"  # no set of the present servers could hold it even when empty
    NO_SERVER = "no_server"  # no server is up
    RECONFIGURING = "reconfiguring"  # granted, waits for the job that leaves to checkpoint
    BACKOFF = "backoff"  # failed a moment ago, is tried again at a known time
    HELD = "held"  # its owner paused it
    POLICY_PAUSED = "policy_paused"  # an admin paused scheduling
    SCHEDULER_STALE = "scheduler_stale"  # no round has ended for too long


class PreemptRule(StrEnum):
    """The rule that took a running job's GPUs."""

    POLICY_ORDER = "policy_order"  # a job before it in the order needs the GPUs
    QUOTA_RECLAIM = "quota_reclaim"  # another queue takes back GPUs that it had lent
    SERVER_GONE = "server_gone"  # its server left the pool (drained, lost)
    REPACKED = "repacked"  # all jobs were placed anew, and its best place is now on another server
    NO_SHARE = "no_share"  # the policy gives its GPUs to other jobs and it gets none
    MOVED = "moved"  # it goes on elsewhere, so that a gang fits, or because it was faster there
    UNPACKED = "unpacked"  # it shared the GPUs of another job, which was slower than taking turns, or is over


# Neither frozen nor by keyword, although nobody changes it: a round makes thousands, in a third of the time.
@dataclass(slots=True)
class Waiting:
    """One job that does not run after this round.

    Attributes:
        job: Row in JobTable.
        position: 1 for the first waiting job in the order of the policy.
        reason: The binding constraint.
        evidence: The numbers of the reason, such as ``{"needed_gpus": 8, "largest_free_gpus": 7}``. Queues and jobs are
            named by ``queue_id`` and ``job_id`` keys; a shell that knows names adds ``queue`` and ``job``.
    """

    job: int
    position: int
    reason: WaitReason
    evidence: Evidence


# As it is for the same reason.
@dataclass(slots=True)
class Preemption:
    """One running job that must leave its servers.

    It waits afterwards, or has a grant on other servers that starts when it has left the present ones.

    Attributes:
        job: Row in JobTable.
        rule: Why.
        by_job: Row of the granted job it makes room for; NO_ROW when its server left the pool, it has no
            share, or it goes on elsewhere because all jobs were placed anew.
        evidence: Numbers of the rule, such as ``{"queue_held_gpus": 54, "queue_allowed_gpus": 48}``.
    """

    job: int
    rule: PreemptRule
    by_job: int
    evidence: Evidence


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The outcome of one round.

    Attributes:
        grants: What every job holds after the round, sorted by job row, then server row; a job that keeps its
            placement is in it too.
        order: Job rows in the order of the policy, granted and waiting alike.
        kept: Job rows that go on with the same servers and GPU counts (cores and bytes may differ).
        resized: Job rows that go on with another number of GPUs, as far as possible on the same servers.
        preemptions: Running jobs that must leave their servers, in the order of the policy.
        waiting: Every job without a grant, each exactly once.
        plan_hash: Hex digest over grants, order, preemptions and waiting reasons; equal snapshots give equal hashes.
        riding: Jobs that share the GPUs of another, their guest, by row: guest to host. A guest has the grants of its
            host on the same GPUs, which count once; cores and bytes are split between them.
        lent: Jobs without a share that run on GPUs lent to them, by row; what the next snapshot says of them.
        trials: What introspection wants to find in the next snapshot.
        again_at_s: When introspection wants the next round at the latest; +inf when it does not care.
    """

    grants: Placements
    order: list[int]
    kept: frozenset[int]
    resized: frozenset[int]
    preemptions: list[Preemption]
    waiting: list[Waiting]
    plan_hash: str
    riding: Mapping[int, int] = field(default_factory=dict)
    lent: frozenset[int] = frozenset()
    trials: tuple[Trial, ...] = ()
    again_at_s: float = math.inf


def plan_digest(
    snapshot: Snapshot,
    *,
    grants: Placements,
    order: IntArray | list[int],
    preemptions: list[Preemption],
    waiting: list[Waiting],
    riding: Mapping[int, int] | None = None,
) -> str:
    """Return a hex digest of a plan. It names jobs and servers by id, so the rows of the snapshot do not matter."""
    job_id, server_id = snapshot.jobs.job_id, snapshot.servers.server_id
    jobs, servers = job_id[grants.job], server_id[grants.server]
    by_id = seat_order(jobs, servers)
    digest = hashlib.sha256()
    columns = (jobs, servers, grants.num_gpus, grants.cpus, grants.memory_bytes)
    for column in (*(column[by_id] for column in columns), job_id[order]):
        digest.update(np.ascontiguousarray(column).tobytes())
    ids = job_id.tolist()
    # To add an enum that is text takes two thirds of the time that formatting it takes.
    text = [f"{ids[p.job]} " + p.rule + f" {ids[p.by_job] if p.by_job != NO_ROW else NO_ROW}" for p in preemptions]
    text += [f"{ids[w.job]} " + w.reason for w in waiting]
    text += [f"{ids[guest]} with {ids[host]}" for guest, host in sorted((riding or {}).items())]
    digest.update("\n".join(text).encode())
    return digest.hexdigest()
