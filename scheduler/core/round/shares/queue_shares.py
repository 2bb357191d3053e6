"""Decide how many GPUs each queue may share out beside jobs that may not be stopped, and which of those must leave.

Used by ``elastic.py`` under share policies. Everything is in whole GPUs. ``kept`` are the GPUs of jobs that may not be
stopped; a queue may hold more of them than its part.
"""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from scheduler.core.model.queue_tree import QueueTree, fair_shares, subtree_sums
from scheduler.core.model.tables import NO_ROW, BoolArray, IntArray, JobTable


def whole_gpus(tree: QueueTree, demand: IntArray, capacity_gpus: int) -> IntArray:
    """Return (k,) whole GPUs for the jobs submitted to each queue itself: its fair share, largest remainders first."""
    shares = fair_shares(tree, demand, capacity_gpus)
    own = np.array([shares[row] - shares[tree.children[row]].sum() for row in range(len(shares))])
    own = np.minimum(np.maximum(own, 0.0), demand)
    gpus: IntArray = np.floor(own + 1e-9).astype(np.int64)
    left = int(np.floor(own.sum() + 1e-9) - gpus.sum())
    for queue in np.argsort(-np.round(own - gpus, 9), kind="stable").tolist():  # float dust breaks no tie
        inside = subtree_sums(tree, np.arange(len(gpus)), gpus)
        full = gpus[queue] >= demand[queue] or any(inside[node] >= tree.cap[node] for node in tree.paths[queue])
        if left > 0 and not full:
            gpus[queue] += 1
            left -= 1
    return gpus


def _guaranteed_gpus(tree: QueueTree, demand: IntArray, capacity_gpus: int) -> IntArray:
    """Return (k,) whole GPUs that other queues may not borrow from the jobs of each queue itself.

    What a queue leaves of its quota goes to its siblings before other queues, so only roots are held to their quota.
    """
    roots = tree.children[NO_ROW]
    cap = [min(most, tree.quota[row]) if row in roots else most for row, most in enumerate(tree.cap)]
    return whole_gpus(replace(tree, cap=cap), demand, capacity_gpus)


def beside_kept(tree: QueueTree, gpus: IntArray, kept: IntArray, guaranteed: IntArray, capacity_gpus: int) -> IntArray:
    """Return (k,) GPUs of the parts ``gpus`` that queues may give beside the kept ones, so that no limit is passed.

    Where a queue keeps more than its part, others get less: first the queue furthest over its guarantee.
    """
    rest: IntArray = np.maximum(0, gpus - kept)
    if not kept.any():
        return rest
    for within, most in _places(tree, capacity_gpus):
        over = int((rest + kept)[within].sum()) - most
        while over > 0 and rest[within].any():
            giving = within[rest[within] > 0]
            rest[giving[(rest + kept - guaranteed)[giving].argmax()]] -= 1
            over -= 1
    return rest


def _places(tree: QueueTree, capacity_gpus: int) -> list[tuple[IntArray, int]]:
    """Return the queues within each queue and the most they may hold, children first; at last the whole cluster."""
    within = tree.within
    places = [(np.flatnonzero(within[node]), tree.cap[node]) for node in range(len(within) - 1, -1, -1)]
    return [*places, (np.arange(len(within)), capacity_gpus)]


def by_queue(tree: QueueTree, jobs: JobTable, gpus: IntArray) -> IntArray:
    """Return (k,) GPUs of the jobs submitted to each queue itself."""
    return np.bincount(jobs.queue, weights=gpus, minlength=len(tree.quota)).astype(np.int64)


def most_on_path(tree: QueueTree, gpus: IntArray) -> IntArray:
    """Return (k,) the most of these GPUs that a queue, one above it, or the whole cluster has with all queues below."""
    sums = subtree_sums(tree, np.arange(len(gpus)), gpus)
    whole = int(gpus.sum())
    return np.array([max(whole, sums[list(path)].max()) for path in tree.paths], dtype=np.int64)


def room_on_path(tree: QueueTree, used: IntArray, capacity_gpus: int) -> IntArray:
    """Return (k,) how many GPUs more the jobs of each queue may hold in all before it or one above it is full."""
    sums = subtree_sums(tree, np.arange(len(used)), used)
    room = np.array(tree.cap, dtype=np.int64) - sums
    left = capacity_gpus - int(used.sum())
    return np.array([min(left, room[list(path)].min()) for path in tree.paths], dtype=np.int64)


def pressing(tree: QueueTree, jobs: JobTable, wants: BoolArray, kept: IntArray, capacity_gpus: int) -> IntArray:
    """Return (k,) GPUs that each queue is guaranteed, for jobs that keep theirs and jobs that want and can use more.

    A gang that is wider than what its queues have left of their quota takes nothing back: it could not run on it.
    """
    while True:
        guaranteed = _guaranteed_gpus(tree, by_queue(tree, jobs, jobs.max_gpus * wants) + kept, capacity_gpus)
        left = subtree_sums(tree, np.arange(len(kept)), guaranteed - kept)
        widest = np.array([left[list(path)].max() for path in tree.paths], dtype=np.int64)
        too_wide = wants & (jobs.min_gpus > widest[jobs.queue])
        if not too_wide.any():
            return guaranteed
        wants = wants & ~too_wide


def taken_back(
    tree: QueueTree, jobs: JobTable, keeps: BoolArray, held: IntArray, guaranteed: IntArray, capacity_gpus: int
) -> BoolArray:
    """Return (n,) jobs that may not be stopped by the order, but borrow GPUs that are guaranteed to another queue.

    Jobs that are not preemptible leave last. They are always taken from the queue that is then furthest over what it is
    guaranteed; inside it the job that loses the least work, then the newest placement.

    Args:
        tree: The queues.
        jobs: The jobs.
        keeps: (n,) jobs that keep their GPUs.
        held: (n,) GPUs of each job.
        guaranteed: (k,) GPUs that other queues may not borrow from each queue.
        capacity_gpus: GPUs of all servers.
    """
    taken = np.zeros_like(keeps)
    kept = by_queue(tree, jobs, held * keeps)
    lines = _lines(jobs, keeps)
    for within, most in _places(tree, capacity_gpus):
        while (kept < guaranteed)[within].any() and int(np.maximum(kept, guaranteed)[within].sum()) > most:
            over = kept - guaranteed
            ahead = [(not_preemptible, -over[queue], queue) for not_preemptible, queue in _heads(lines, within, over)]
            if not ahead:
                break
            not_preemptible, _, queue = min(ahead)
            row = lines[not_preemptible, queue].pop()
            taken[row] = True
            kept[queue] -= held[row]
    return taken


def _lines(jobs: JobTable, keeps: BoolArray) -> dict[tuple[bool, int], list[int]]:
    """Return the jobs that keep their GPUs by preemptibility and queue, the first to give them up last."""
    order = np.lexsort((jobs.job_id, -jobs.held_at_s, jobs.unsaved_s))[::-1]
    rows = order[keeps[order]]
    lines: dict[tuple[bool, int], list[int]] = {}
    columns = (rows, ~jobs.preemptible[rows], jobs.queue[rows])
    for row, not_preemptible, queue in zip(*(column.tolist() for column in columns), strict=True):
        lines.setdefault((not_preemptible, queue), []).append(row)
    return lines


def _heads(lines: dict[tuple[bool, int], list[int]], within: IntArray, over: IntArray) -> Iterator[tuple[bool, int]]:
    """Yield the lines of queues inside a place that hold more than they are guaranteed."""
    inside = set(within.tolist())
    for (not_preemptible, queue), rows in lines.items():
        if rows and queue in inside and over[queue] > 0:
            yield not_preemptible, queue
