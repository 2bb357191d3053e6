"""Admission: how many GPUs each queue may hold now, and which jobs have a right to theirs.

A job is *covered* when its queue, or a queue above it, still has quota for it; covered jobs go before all others and
may take GPUs back from them. The other jobs borrow what covered jobs leave idle: first those inside the fair share of
their queue (idle quota shared out by weight), then the rest. Nothing here knows servers.
"""

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from scheduler.core.tables import NO_ROW, BoolArray, FloatArray, IntArray, JobTable, QueueTable

_EPSILON = 1e-9


class Standing(IntEnum):
    """What entitles a job to GPUs, strongest first."""

    COVERED = 0  # within the quota of its queue or of a queue above it
    BORROWS = 1  # within the fair share of its queue of what others leave idle; the gang that crosses the line counts
    BEYOND = 2  # more than that: gets only what nobody else can use


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTree:
    """The queues with what follows from their places in the tree. Rows are those of the QueueTable.

    Attributes:
        paths: For each queue itself and the queues above it, nearest first.
        children: For each queue its children; the last entry holds the roots.
        quota: (k,) GPUs guaranteed to the subtree: its own quota, or the sum of its children's where that is more.
        cap: (k,) most GPUs the subtree may hold: its maximum, and its quota where it may not borrow.
        weight: (k,) weights.
    """

    paths: list[tuple[int, ...]]
    children: list[list[int]]
    quota: list[int]
    cap: list[int]
    weight: list[float]


def queue_tree(queues: QueueTable) -> QueueTree:
    """Return the tree of the table; parents come before their children in it."""
    parents = queues.parent.tolist()
    paths: list[tuple[int, ...]] = []
    children: list[list[int]] = [[] for _ in range(len(parents) + 1)]
    for row, parent in enumerate(parents):
        paths.append((row,) if parent == NO_ROW else (row, *paths[parent]))
        children[parent].append(row)
    quota = queues.quota_gpus.tolist()
    for row in range(len(parents) - 1, -1, -1):
        quota[row] = max(quota[row], sum(quota[child] for child in children[row]))
    cap = [
        max_gpus if may_borrow else min(max_gpus, own)
        for max_gpus, may_borrow, own in zip(queues.max_gpus.tolist(), queues.may_borrow.tolist(), quota, strict=True)
    ]
    return QueueTree(paths=paths, children=children, quota=quota, cap=cap, weight=queues.weight.tolist())


def subtrees(tree: QueueTree) -> BoolArray:
    """Return (k, k) whether the queue of the column is the queue of the row or below it."""
    within = np.zeros((len(tree.paths), len(tree.paths)), dtype=np.bool_)
    for queue, path in enumerate(tree.paths):
        within[list(path), queue] = True
    return within


def subtree_sums(tree: QueueTree, queues: IntArray, gpus: IntArray) -> IntArray:
    """Return (k,) GPUs of each queue and the queues below it.

    Args:
        tree: The queues.
        queues: (x,) queue of each holding.
        gpus: (x,) GPUs of each holding.
    """
    sums = np.bincount(queues, weights=gpus, minlength=len(tree.quota)).astype(np.int64)
    for row in range(len(tree.quota) - 1, -1, -1):
        for child in tree.children[row]:
            sums[row] += sums[child]
    return sums


def fair_shares(tree: QueueTree, own_demand: IntArray, capacity_gpus: float) -> FloatArray:
    """Return (k,) GPUs that each queue may hold by right and by fair borrowing, fractions allowed.

    Every queue first gets its demand up to its quota; what is left is shared among siblings in proportion to their
    weights, nobody getting more than it asks for or may hold (water filling), and so on down the tree.

    Args:
        tree: The queues.
        own_demand: (k,) GPUs that jobs submitted to the queue itself ask for.
        capacity_gpus: GPUs to share.

    Source: Jeon et al., "Philly", ATC 2019, and the YARN fair scheduler. Differs: the guarantee is the quota and
    borrowing goes by weight; the two are one number there.
    """
    num_queues = len(tree.quota)
    demand = own_demand.astype(np.float64)
    for row in range(num_queues - 1, -1, -1):
        demand[row] = min(demand[row] + sum(demand[child] for child in tree.children[row]), tree.cap[row])
    shares = np.zeros(num_queues)

    def share_out(capacity: float, parent: int) -> None:
        rows = tree.children[parent]
        members = [(demand[row], float(tree.quota[row]), tree.weight[row]) for row in rows]
        if parent != NO_ROW and own_demand[parent]:
            # Jobs submitted to an inner queue stand beside its children, with the quota that those leave over.
            rest = float(tree.quota[parent] - sum(tree.quota[row] for row in rows))
            members.append((float(own_demand[parent]), rest, tree.weight[parent]))
        given = _share(capacity, members)
        for row, amount in zip(rows, given, strict=False):
            shares[row] = amount
            share_out(amount, row)

    share_out(capacity_gpus, NO_ROW)
    return shares


def _share(capacity: float, members: list[tuple[float, float, float]]) -> list[float]:
    """Return the amounts of members given as (demand, quota, weight)."""
    demands = [demand for demand, _, _ in members]
    ensured = [min(demand, quota) for demand, quota, _ in members]
    if sum(ensured) > capacity:  # more is promised than there is, such as after servers were lost
        return water_fill(capacity, ensured, [max(quota, _EPSILON) for _, quota, _ in members])
    wanted = [demand - sure for demand, sure in zip(demands, ensured, strict=True)]
    extra = water_fill(capacity - sum(ensured), wanted, [weight for _, _, weight in members])
    return [sure + more for sure, more in zip(ensured, extra, strict=True)]


def water_fill(capacity: float, demands: list[float], weights: list[float]) -> list[float]:
    """Return weighted max-min shares of ``capacity``: in proportion to the weights, nobody above its demand."""
    shares = [0.0] * len(demands)
    # In this order members are satisfied one after another as the level rises.
    order = sorted(range(len(demands)), key=lambda member: (demands[member] / weights[member], member))
    weight_left = sum(weights)
    for member in order:
        shares[member] = min(demands[member], capacity * weights[member] / weight_left) if weight_left > 0 else 0.0
        capacity -= shares[member]
        weight_left -= weights[member]
    return shares


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
    tree: QueueTree, jobs: JobTable, *, sequence: IntArray, counts_anyway: BoolArray, capacity_gpus: int
) -> Admission:
    """Return the standing of every job.

    Args:
        tree: The queues.
        jobs: The jobs.
        sequence: Rows of the jobs that could run at all, in the order in which they use up their queue's quota.
        counts_anyway: (n,) running jobs: they use quota up even where they are wider than what is left of it.
        capacity_gpus: GPUs of all servers.
    """
    num_jobs, num_queues = len(jobs), len(tree.quota)
    own_demand = np.bincount(jobs.queue[sequence], weights=jobs.num_gpus[sequence], minlength=num_queues)
    shares = fair_shares(tree, own_demand.astype(np.int64), capacity_gpus)
    eligible = sequence[_within_caps(tree, jobs, sequence, counts_anyway)]
    cover = _cover(tree, jobs, eligible, counts_anyway)
    standing = np.full(num_jobs, Standing.BEYOND, dtype=np.int64)
    covered = cover != NO_ROW
    standing[covered] = Standing.COVERED
    used = subtree_sums(tree, jobs.queue[covered], jobs.num_gpus[covered]).tolist()
    rest = eligible[~covered[eligible]]
    standing[_within_shares(tree, shares.tolist(), used, jobs, rest)] = Standing.BORROWS
    return Admission(standing=standing, cover=cover, shares=shares)


def _within_caps(tree: QueueTree, jobs: JobTable, sequence: IntArray, counts_anyway: BoolArray) -> BoolArray:
    """Return for each row of ``sequence`` whether its queues may hold it beside those before it.

    The others would only use up quota and share that jobs of other queues can use.
    """
    queue, gpus = jobs.queue[sequence], jobs.num_gpus[sequence]
    inside = np.ones(len(sequence), dtype=np.bool_)
    cap = tree.cap
    short = set(np.flatnonzero(subtree_sums(tree, queue, gpus) > np.array(cap, dtype=np.int64)).tolist())
    binding = [[node for node in path if node in short] for path in tree.paths]
    used = [0] * len(cap)
    for at in np.flatnonzero(np.array([bool(nodes) for nodes in binding], dtype=np.bool_)[queue]).tolist():
        nodes, num_gpus = binding[queue[at]], int(gpus[at])
        if any(used[node] + num_gpus > cap[node] for node in nodes):
            inside[at] = False
            if not counts_anyway[sequence[at]]:
                continue
        for node in nodes:
            used[node] += num_gpus
    return inside


def _cover(tree: QueueTree, jobs: JobTable, sequence: IntArray, counts_anyway: BoolArray) -> IntArray:
    """Return (n,) the nearest queue on the path of each job that has quota for it."""
    cover = np.full(len(jobs), NO_ROW, dtype=np.int64)
    used = [0] * len(tree.quota)
    within = subtrees(tree)
    # Children first: what a queue leaves of its quota is there for its siblings and for jobs of the queue above.
    for node in range(len(tree.quota) - 1, -1, -1):
        quota = tree.quota[node] - used[node]
        if quota <= 0:
            continue
        left = sequence[within[node][jobs.queue[sequence]] & (cover[sequence] == NO_ROW)]
        taken = _take_quota(left, jobs, counts_anyway, quota)
        cover[taken] = node
        gpus = int(jobs.num_gpus[taken].sum())
        for above in tree.paths[node]:
            used[above] += gpus
    return cover


def _take_quota(rows: IntArray, jobs: JobTable, counts_anyway: BoolArray, quota: int) -> IntArray:
    """Return the rows that fit in ``quota`` GPUs one after another, stepping over those that do not."""
    if quota <= 0:
        return rows[:0]
    gpus = jobs.num_gpus[rows]
    prefix = int(np.searchsorted(np.cumsum(gpus), quota, side="right"))
    taken = rows[:prefix].tolist()
    quota -= int(gpus[:prefix].sum())
    for row, num_gpus, counts in zip(
        rows[prefix:].tolist(), gpus[prefix:].tolist(), counts_anyway[rows[prefix:]].tolist(), strict=True
    ):
        if quota <= 0:
            break
        if num_gpus <= quota:
            taken.append(row)
            quota -= num_gpus
        elif counts:
            quota -= num_gpus
    return np.array(taken, dtype=np.int64)


def _within_shares(tree: QueueTree, shares: list[float], used: list[int], jobs: JobTable, rows: IntArray) -> IntArray:
    """Return the rows that begin below the fair share of every queue on their path, in order."""
    inside: list[int] = []
    closed = [False] * len(shares)
    for row, queue, gpus in zip(rows.tolist(), jobs.queue[rows].tolist(), jobs.num_gpus[rows].tolist(), strict=True):
        if closed[queue]:
            continue
        path = tree.paths[queue]
        if any(used[node] >= shares[node] - _EPSILON for node in path):
            closed[queue] = True
            continue
        inside.append(row)
        for node in path:
            used[node] += gpus
    return np.array(inside, dtype=np.int64)
