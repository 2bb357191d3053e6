"""Which jobs have a right to GPUs by the quotas and limits of their queues. Servers play no part here.

A job is *covered* when its queue, or a queue above it, still has quota for it; covered jobs go before all others and
may take GPUs back from them. The other jobs borrow what covered jobs leave idle: first those inside the fair share of
their queue, then the rest.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from scheduler.core.model.queue_tree import QueueTree, fair_shares, limiting, subtree_sums
from scheduler.core.model.tables import NO_ROW, BoolArray, FloatArray, IntArray, JobTable

_EPSILON = 1e-9


class Standing(IntEnum):
    """What entitles a job to GPUs, strongest first."""

    COVERED = 0  # within the quota of its queue or of a queue above it
    BORROWS = 1  # within the fair share of its queue of what others leave idle; the gang that crosses the line counts
    BEYOND = 2  # more than that: gets only what no other job can use


@dataclass(frozen=True, slots=True, kw_only=True)
class Admission:
    """What the queues say about each job.

    Attributes:
        standing: (n,) members of Standing.
        cover: (n,) queue whose quota covers the job: its own or the nearest above; NO_ROW when none does.
        shares: (k,) GPUs that each queue may hold by right and by fair borrowing.
    """

    standing: IntArray
    cover: IntArray
    shares: FloatArray


def admit(
    tree: QueueTree,
    jobs: JobTable,
    *,
    sequence: IntArray,
    locked: BoolArray,
    counts_anyway: BoolArray,
    capacity_gpus: int,
    behind: IntArray | None = None,
) -> Admission:
    """Return the standing of every job.

    Args:
        tree: The queues.
        jobs: The jobs.
        sequence: Rows of the jobs that could run at all, in the order in which they use up their queue's quota.
        locked: (n,) running jobs that keep their GPUs unless a quota is taken back.
        counts_anyway: (n,) jobs that use quota up even where they are wider than what is left of it. Under a preemptive
            policy there are none, so that what a quota covers does not depend on which jobs run now.
        capacity_gpus: GPUs of all servers.
        behind: (k,) GPUs that further jobs of each queue ask for, which are not among ``jobs``; None for none.
    """
    num_queues = len(tree.quota)
    own_demand = np.bincount(jobs.queue[sequence], weights=jobs.num_gpus[sequence], minlength=num_queues)
    own_demand = own_demand.astype(np.int64)
    if behind is not None:
        own_demand += behind
    shares = fair_shares(tree, own_demand, capacity_gpus)
    caps = _Caps(tree, jobs, own_demand, locked)
    cover = _cover(tree, jobs, sequence, counts_anyway, caps)
    covered = cover != NO_ROW
    standing = np.where(covered, int(Standing.COVERED), int(Standing.BEYOND))
    used = subtree_sums(tree, jobs.queue[covered], jobs.num_gpus[covered])
    rest = sequence[~covered[sequence]]
    standing[_within_shares(tree, shares, used, jobs, rest, caps)] = Standing.BORROWS
    return Admission(standing=standing, cover=cover, shares=shares)


def is_within_share(used_gpus: int, share_gpus: float) -> bool:
    """Return whether a job that begins where its queue uses so many GPUs is within the fair share."""
    return used_gpus < share_gpus - _EPSILON


class _Caps:
    """Counts the jobs admitted to each queue against what it may hold; locked jobs count from the start.

    A job that its queue may not hold would use up quota and share that jobs of other queues can use.

    Attributes:
        binding: For each queue those of its path that could be full.
    """

    def __init__(self, tree: QueueTree, jobs: JobTable, own_demand: IntArray, locked: BoolArray) -> None:
        demand = subtree_sums(tree, np.arange(len(own_demand)), own_demand)
        self._cap = tree.cap
        self.binding = limiting(tree, demand)
        self._held: list[int] = []
        self._locked = locked
        if any(self.binding):
            self._held = subtree_sums(tree, jobs.queue[locked], jobs.num_gpus[locked]).tolist()

    def let_in(self, row: int, queue: int, gpus: int) -> bool:
        """Count the job in and return True, unless some queue on its path may not hold it."""
        nodes = self.binding[queue]
        if not nodes or self._locked[row]:
            return True
        if any(self._held[node] + gpus > self._cap[node] for node in nodes):
            return False
        for node in nodes:
            self._held[node] += gpus
        return True


def _cover(tree: QueueTree, jobs: JobTable, sequence: IntArray, counts_anyway: BoolArray, caps: _Caps) -> IntArray:
    """Return (n,) the nearest queue on the path of each job that has quota for it."""
    cover = np.full(len(jobs), NO_ROW, dtype=np.int64)
    simple = [not below and not limits for below, limits in zip(tree.children, caps.binding, strict=False)]
    used = _cover_leaves(tree, jobs, sequence, counts_anyway, np.array(simple, dtype=np.bool_), cover)
    if all(simple):
        return cover
    within = tree.within
    # Children first: what a queue leaves of its quota is there for its siblings and for jobs of the queue above.
    for node in range(len(tree.quota) - 1, -1, -1):
        quota = tree.quota[node] - used[node]
        if quota <= 0 or simple[node]:
            continue
        left = sequence[within[node][jobs.queue[sequence]] & (cover[sequence] == NO_ROW)]
        taken = _take_quota(left, jobs, counts_anyway, quota, caps)
        cover[taken] = node
        gpus = int(jobs.num_gpus[taken].sum())
        for above in tree.paths[node]:
            used[above] += gpus
    return cover


def _cover_leaves(
    tree: QueueTree,
    jobs: JobTable,
    sequence: IntArray,
    counts_anyway: BoolArray,
    simple: BoolArray,
    cover: IntArray,
) -> list[int]:
    """Cover jobs by the quota of their own queue, for all queues at once that no other queue limits.

    Args:
        tree: The queues.
        jobs: The jobs.
        sequence: See ``admit``.
        counts_anyway: See ``admit``.
        simple: (k,) queues without children that nothing but their quota limits.
        cover: (n,) the result is written here.

    Returns:
        (k,) GPUs of each queue's quota that are used, with those of the queues below it.
    """
    rows = sequence[simple[jobs.queue[sequence]]]
    rows = rows[jobs.queue[rows].argsort(kind="stable")]
    queue, gpus = jobs.queue[rows], jobs.num_gpus[rows]
    quota = np.array(tree.quota, dtype=np.int64)
    begins = np.searchsorted(queue, np.arange(len(quota) + 1))
    before = np.concatenate((np.zeros(1, dtype=np.int64), gpus.cumsum()))
    fits = before[1:] - before[begins[queue]] <= quota[queue]
    cover[rows[fits]] = queue[fits]
    left = quota - np.bincount(queue[fits], weights=gpus[fits], minlength=len(quota)).astype(np.int64)
    # The first that does not fit uses up what is left where it runs already.
    first = begins[:-1] + np.bincount(queue[fits], minlength=len(quota))
    some = np.flatnonzero(first < begins[1:])
    left[some[counts_anyway[rows[first[some]]]]] = 0
    rest = np.flatnonzero(~fits & (left[queue] > 0) & ((gpus <= left[queue]) | counts_anyway[rows]))
    over: list[int] = left.tolist()
    columns = (rest, queue[rest], gpus[rest], counts_anyway[rows[rest]])
    for at, of_queue, num_gpus, counts in zip(*(column.tolist() for column in columns), strict=True):
        if 0 < num_gpus <= over[of_queue]:
            cover[rows[at]] = of_queue
            over[of_queue] -= num_gpus
        elif counts and over[of_queue] > 0:
            over[of_queue] -= num_gpus
    taken = rows[cover[rows] != NO_ROW]
    used: list[int] = subtree_sums(tree, jobs.queue[taken], jobs.num_gpus[taken]).tolist()
    return used


def _take_quota(rows: IntArray, jobs: JobTable, counts_anyway: BoolArray, quota: int, caps: _Caps) -> list[int]:
    """Return the rows that fit in ``quota`` GPUs one after another, stepping over those that do not."""
    columns = (rows, jobs.queue[rows], jobs.num_gpus[rows], counts_anyway[rows])
    taken = []
    for row, queue, num_gpus, counts in zip(*(column.tolist() for column in columns), strict=True):
        if quota <= 0:
            break
        if num_gpus <= quota and caps.let_in(row, queue, num_gpus):
            taken.append(row)
            quota -= num_gpus
        elif counts:
            quota -= num_gpus
    return taken


def _within_shares(
    tree: QueueTree, shares: FloatArray, used: IntArray, jobs: JobTable, rows: IntArray, caps: _Caps
) -> IntArray:
    """Return the rows that begin below the fair share of every queue on their path, in any order."""
    if any(caps.binding) or any(len(path) > 1 for path in tree.paths):
        return _within_shares_of_path(tree, shares.tolist(), used.tolist(), jobs, rows, caps)
    rows = rows[jobs.queue[rows].argsort(kind="stable")]
    queue, gpus = jobs.queue[rows], jobs.num_gpus[rows]
    before = gpus.cumsum() - gpus
    first = np.searchsorted(queue, np.arange(len(used)))
    in_queue = before - before[first[queue]] if len(rows) else before
    inside: IntArray = rows[used[queue] + in_queue < shares[queue] - _EPSILON]
    return inside


def _within_shares_of_path(
    tree: QueueTree, shares: list[float], used: list[int], jobs: JobTable, rows: IntArray, caps: _Caps
) -> IntArray:
    """Return the same as ``_within_shares`` where queues stand inside others, or could be full."""
    inside: list[int] = []
    enough = [share - _EPSILON for share in shares]
    closed = [False] * len(shares)
    num_open = len(np.unique(jobs.queue[rows]))
    for row, queue, gpus in zip(rows.tolist(), jobs.queue[rows].tolist(), jobs.num_gpus[rows].tolist(), strict=True):
        if closed[queue]:
            continue
        path = tree.paths[queue]
        for node in path:
            if used[node] >= enough[node]:
                closed[queue] = True
                num_open -= 1
                break
        else:
            if caps.let_in(row, queue, gpus):
                inside.append(row)
                for node in path:
                    used[node] += gpus
        if not num_open:
            break
    return np.array(inside, dtype=np.int64)
