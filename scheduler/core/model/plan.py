"""The output of a round: grants, preemptions and, for every other job, the reason to wait.

``core/round/invariants.py`` checks every plan; its hash is the same for equal snapshots.
"""

import hashlib
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from typing import TypeVar, overload

import numpy as np

from scheduler.core.model.tables import NO_ROW, FloatArray, IntArray, Placements, Snapshot, seat_order
from scheduler.core.model.trial import Trial

# Numbers that belong to a reason. Keys carry their unit; values are plain JSON numbers or short strings.
Evidence = dict[str, float | int | str]

Entry = TypeVar("Entry")


class WaitReason(StrEnum):
    """Why a job does not run. A closed list; every member has a sentence in
    ``scheduler/core/operations/reasons.py``."""

    NEW = "new"  # no round has decided about it since it was submitted or stopped
    QUEUE_QUOTA = "queue_quota"  # its queue (or a parent) holds its quota and may not borrow now
    QUEUE_MAX = "queue_max"  # its queue holds the most it may ever hold
    USER_LIMIT = "user_limit"  # jobs of its owner that run or are ahead of it use up what one user may hold there
    ARRAY_LIMIT = "array_limit"  # its array has as many jobs at work as it may
    DEPENDENCY = "dependency"  # jobs that it starts after have not ended
    NO_CAPACITY = "no_capacity"  # fewer GPUs are free than it asks for, jobs before it took the rest
    BEHIND_POLICY_ORDER = "behind_policy_order"  # GPUs exist, jobs before it in the order hold them
    FRAGMENTATION = "fragmentation"  # enough GPUs are free, but not on few enough servers
    CPU_OR_MEMORY = "cpu_or_memory"  # the GPUs are free where the cores or bytes it insists on are not
    NEVER_FEASIBLE = "never_feasible"  # no set of the present servers could hold it even when empty
    ISOLATION = "isolation"  # the servers that keep jobs apart as its queue demands have no room for it
    PREPARING_ENVIRONMENT = "preparing_environment"  # its Python environment is not yet on a server with room for it
    NO_SERVER = "no_server"  # no server is up
    RECONFIGURING = "reconfiguring"  # granted, waits for the job that leaves to checkpoint
    BACKOFF = "backoff"  # failed a moment ago, is tried again at a known time
    HELD = "held"  # a user suspended it
    POLICY_PAUSED = "policy_paused"  # an admin paused scheduling
    SCHEDULER_STALE = "scheduler_stale"  # no round has ended for too long


class PreemptRule(StrEnum):
    """The rule that took a running job's GPUs."""

    POLICY_ORDER = "policy_order"  # a job before it in the order needs the GPUs
    QUOTA_RECLAIM = "quota_reclaim"  # a job within a quota takes back GPUs that it had borrowed
    OVER_SHARE = "over_share"  # its queue is beyond its fair share of what is lent, the queue of the other job is not
    SERVER_GONE = "server_gone"  # its server left the pool (drained, lost), or became too small for what runs on it
    REPACKED = "repacked"  # all jobs were placed anew, and its best place is now on another server
    NO_SHARE = "no_share"  # the policy gives its GPUs to other jobs and it gets none
    MOVED = "moved"  # it goes on elsewhere: so that a gang or its share fits, or because it was faster there
    UNPACKED = "unpacked"  # it shared the GPUs of another job, which was slower than taking turns, or is over


# A reason with its numbers.
Cause = tuple[WaitReason, Evidence]


@dataclass(frozen=True, slots=True, kw_only=True)
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


class _Columns(Sequence[Entry]):
    """Many entries, kept as columns: few of them are looked at one by one."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Entry]:
        return map(self._entry, range(len(self)))

    @overload
    def __getitem__(self, at: int) -> Entry: ...

    @overload
    def __getitem__(self, at: slice) -> list[Entry]: ...

    def __getitem__(self, at: int | slice) -> Entry | list[Entry]:
        places = range(len(self))[at]
        return self._entry(places) if isinstance(places, int) else [*map(self._entry, places)]

    @abstractmethod
    def _entry(self, at: int) -> Entry:
        """Return one of the entries."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Waits(_Columns[Waiting]):
    """The jobs that do not run, in the order of the policy.

    Attributes:
        job: (w,) rows in JobTable.
        causes: (w,) why each waits; jobs with the same cause may share one.
    """

    job: IntArray
    causes: list[Cause]

    def __len__(self) -> int:
        return len(self.job)

    def _entry(self, at: int) -> Waiting:
        reason, evidence = self.causes[at]
        return Waiting(job=self.job.item(at), position=at + 1, reason=reason, evidence=evidence)

    def with_causes(self, causes: Mapping[int, Cause]) -> "Waits":
        """Return the same jobs, some of them for another cause, given by row."""
        told = [causes.get(row, cause) for row, cause in zip(self.job.tolist(), self.causes, strict=True)]
        return replace(self, causes=told)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preemption:
    """One running job that must leave its servers.

    It waits afterwards, or has a grant on other servers that starts when it has left the present ones.

    Attributes:
        job: Row in JobTable.
        rule: Why.
        by_job: Row of the granted job it makes room for; NO_ROW when its server left the pool, it has no
            share, or it goes on elsewhere because all jobs were placed anew.
        evidence: Numbers of the rule, such as ``{"queue_held_gpus": 54, "queue_share_gpus": 48}``.
    """

    job: int
    rule: PreemptRule
    by_job: int
    evidence: Evidence


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Preemptions(_Columns[Preemption]):
    """The running jobs that must leave their servers, in the order of the policy.

    Attributes:
        job: (p,) rows in JobTable.
        rules: (p,) why each must.
        by_job: (p,) rows of the jobs that they make room for, NO_ROW for none.
        evidence: (p,) numbers of the rules.
    """

    job: IntArray
    rules: list[PreemptRule]
    by_job: IntArray
    evidence: list[Evidence]

    def __len__(self) -> int:
        return len(self.job)

    def _entry(self, at: int) -> Preemption:
        return Preemption(
            job=self.job.item(at), rule=self.rules[at], by_job=self.by_job.item(at), evidence=self.evidence[at]
        )

    @staticmethod
    def of(entries: Sequence[Preemption]) -> "Preemptions":
        """Return the entries as columns."""
        return Preemptions(
            job=np.array([entry.job for entry in entries], dtype=np.int64),
            rules=[entry.rule for entry in entries],
            by_job=np.array([entry.by_job for entry in entries], dtype=np.int64),
            evidence=[entry.evidence for entry in entries],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The outcome of one round.

    Attributes:
        grants: What every job holds after the round, sorted by job row, then server row; a job that keeps its
            placement is in it too.
        order: Job rows in the order of the policy, granted and waiting alike.
        kept: Job rows that go on with the same servers and GPU counts (cores and bytes may differ).
        resized: Job rows that go on with another number of GPUs, as far as possible on the same servers.
        preemptions: Running jobs that must leave their servers.
        waiting: Every job without a grant, each exactly once.
        plan_hash: Hex digest over grants, order, preemptions and waiting reasons; equal snapshots give equal hashes.
        riding: Jobs that share the GPUs of another, their guest, by row: guest to host. A guest has the grants of its
            host on the same GPUs, which count once; cores and bytes are split between them.
        lent: Jobs without a share that run on GPUs lent to them, by row; what the next snapshot says of them.
        trials: What introspection wants to find in the next snapshot.
        again_at_s: When introspection wants the next round at the latest; +inf when it does not care.
        keys: (n,) keys of the policy that made ``order``, NaN for jobs that it was not asked about (held back, guests);
            empty where the jobs go by turns instead.
    """

    grants: Placements
    order: list[int]
    kept: frozenset[int]
    resized: frozenset[int]
    preemptions: Preemptions
    waiting: Waits
    plan_hash: str
    riding: Mapping[int, int] = field(default_factory=dict)
    lent: frozenset[int] = frozenset()
    trials: tuple[Trial, ...] = ()
    again_at_s: float = math.inf
    keys: FloatArray = field(default_factory=partial(np.zeros, 0), compare=False)

    def on_rows(self, rows: IntArray, num_jobs: int) -> "Plan":
        """Return the plan with row ``rows[r]`` of a snapshot of so many jobs for its row r; the hash stays as it is."""
        number: list[int] = rows.tolist()
        keys = np.full(num_jobs if len(self.keys) else 0, np.nan)
        keys[rows if len(keys) else []] = self.keys
        by_job = np.append(rows, NO_ROW)[self.preemptions.by_job]  # NO_ROW is the last
        return replace(
            self,
            grants=replace(self.grants, job=rows[self.grants.job]),
            order=[number[row] for row in self.order],
            kept=frozenset(number[row] for row in self.kept),
            resized=frozenset(number[row] for row in self.resized),
            lent=frozenset(number[row] for row in self.lent),
            riding={number[guest]: number[host] for guest, host in self.riding.items()},
            preemptions=replace(self.preemptions, job=rows[self.preemptions.job], by_job=by_job),
            waiting=replace(self.waiting, job=rows[self.waiting.job]),
            keys=keys,
        )


def plan_digest(
    snapshot: Snapshot,
    *,
    grants: Placements,
    order: IntArray | list[int],
    preemptions: Preemptions,
    waiting: Waits,
    riding: Mapping[int, int] | None = None,
) -> str:
    """Return a hex digest of a plan. It names jobs and servers by id, so the rows of the snapshot do not matter."""
    job_id, server_id = snapshot.jobs.job_id, snapshot.servers.server_id
    jobs, servers = job_id[grants.job], server_id[grants.server]
    by_id = seat_order(jobs, servers)
    digest = hashlib.sha256()
    columns = (jobs, servers, grants.num_gpus, grants.cpus, grants.memory_bytes)
    takers = np.where(preemptions.by_job == NO_ROW, NO_ROW, job_id[preemptions.by_job])
    rows = (job_id[order], job_id[preemptions.job], takers, job_id[waiting.job])
    for column in (*(column[by_id] for column in columns), *rows):
        digest.update(np.ascontiguousarray(column).tobytes())
    text: list[str] = [*preemptions.rules, *(reason for reason, _ in waiting.causes)]
    text += [f"{job_id[guest]} with {job_id[host]}" for guest, host in sorted((riding or {}).items())]
    digest.update("\n".join(text).encode())
    return digest.hexdigest()
