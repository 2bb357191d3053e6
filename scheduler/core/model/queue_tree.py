"""The tree of queues, and how many GPUs each may hold: quota first, then idle quota shared out by weight."""

from dataclasses import dataclass

import numpy as np

from scheduler.core.model.tables import NO_ROW, BoolArray, FloatArray, IntArray, QueueTable

_EPSILON = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueTree:
    """The queues with what follows from their places in the tree. Rows are those of the QueueTable.

    Attributes:
        paths: For each queue itself and the queues above it, nearest first.
        children: For each queue its children; the last entry holds the roots.
        quota: (k,) GPUs guaranteed to the subtree: its own quota, or the sum of its children's where that is more.
        cap: (k,) most GPUs the subtree may hold: its maximum, and its quota where it may not borrow.
        weight: (k,) weights.
        within: (k, k) whether the queue of the column is the queue of the row or below it.
    """

    paths: list[tuple[int, ...]]
    children: list[list[int]]
    quota: list[int]
    cap: list[int]
    weight: list[float]
    within: BoolArray


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
    within = np.zeros((len(paths), len(paths)), dtype=np.bool_)
    for row, path in enumerate(paths):
        within[list(path), row] = True
    return QueueTree(paths=paths, children=children, quota=quota, cap=cap, weight=queues.weight.tolist(), within=within)


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


def limiting(tree: QueueTree, demand: IntArray) -> list[tuple[int, ...]]:
    """Return for each queue those of its path that are asked for more than they may hold, nearest first.

    Args:
        tree: The queues.
        demand: (k,) GPUs that jobs of each queue and the queues below it ask for.
    """
    short = [asked > cap for asked, cap in zip(demand.tolist(), tree.cap, strict=True)]
    if not any(short):
        return [()] * len(tree.paths)
    return [tuple(node for node in path if short[node]) for path in tree.paths]


def fair_shares(tree: QueueTree, own_demand: IntArray, capacity_gpus: float) -> FloatArray:
    """Return (k,) GPUs that each queue may hold by right and by fair borrowing, fractions allowed.

    Every queue first gets its demand up to its quota; what is left is shared among siblings in proportion to their
    weights, none getting more than it asks for or may hold (water filling), and so on down the tree.

    Args:
        tree: The queues.
        own_demand: (k,) GPUs that jobs submitted to the queue itself ask for.
        capacity_gpus: GPUs to share.

    Source: Jeon et al., "Philly", ATC 2019, and the YARN fair scheduler. Differs: the guarantee is the quota and
    borrowing goes by weight; the two are one number there.
    """
    num_queues = len(tree.quota)
    demand: list[float] = own_demand.astype(np.float64).tolist()
    for row in range(num_queues - 1, -1, -1):
        demand[row] = min(demand[row] + sum(demand[child] for child in tree.children[row]), float(tree.cap[row]))
    shares = np.zeros(num_queues)

    def share_out(capacity: float, parent: int) -> None:
        rows = tree.children[parent]
        members = [(demand[row], float(tree.quota[row]), tree.weight[row]) for row in rows]
        if parent != NO_ROW and own_demand[parent]:
            # Jobs submitted to an inner queue stand beside its children, with the quota that those leave over.
            rest = float(tree.quota[parent] - sum(tree.quota[row] for row in rows))
            members.append((float(own_demand[parent]), rest, tree.weight[parent]))
        given = share_among(capacity, members)
        for row, amount in zip(rows, given, strict=False):
            shares[row] = amount
            if tree.children[row]:
                share_out(amount, row)

    share_out(capacity_gpus, NO_ROW)
    return shares


def share_among(capacity: float, members: list[tuple[float, float, float]]) -> list[float]:
    """Return the shares of siblings, given as (demand up to what it may hold, quota, weight); see ``fair_shares``."""
    demands = [demand for demand, _, _ in members]
    ensured = [min(demand, quota) for demand, quota, _ in members]
    spare = capacity - sum(ensured)
    if spare < 0:  # more is promised than there is, such as after servers were lost
        return water_fill(capacity, ensured, [max(quota, _EPSILON) for _, quota, _ in members])
    if not spare:
        return ensured
    wanted = [demand - sure for demand, sure in zip(demands, ensured, strict=True)]
    extra = water_fill(spare, wanted, [weight for _, _, weight in members])
    return [sure + more for sure, more in zip(ensured, extra, strict=True)]


def water_fill(capacity: float, demands: list[float], weights: list[float]) -> list[float]:
    """Return weighted max-min shares of ``capacity``: in proportion to the weights, none above its demand."""
    shares = [0.0] * len(demands)
    # In this order members are satisfied one after another as the level rises.
    order = sorted(range(len(demands)), key=lambda member: (demands[member] / weights[member], member))
    weight_left = sum(weights)
    for member in order:
        shares[member] = min(demands[member], capacity * weights[member] / weight_left) if weight_left > 0 else 0.0
        capacity -= shares[member]
        weight_left -= weights[member]
    return shares
