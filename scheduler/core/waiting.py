"""Why each job without GPUs waits: the binding constraint and its numbers."""

import numpy as np

from scheduler.core.admission import Standing
from scheduler.core.feasible import Shapes
from scheduler.core.line import Line
from scheduler.core.needs import Needs, must_have
from scheduler.core.packing.board import Board
from scheduler.core.packing.selection import Refusal, Selection
from scheduler.core.plan import Evidence, Waiting, WaitReason
from scheduler.core.queues import QueueTree, subtree_sums
from scheduler.core.tables import NO_ROW, BoolArray, Snapshot

# A reason with its numbers, before the position in the line is known.
Cause = tuple[WaitReason, Evidence]


def explain(
    snapshot: Snapshot, *, line: Line, shapes: Shapes, tree: QueueTree, selection: Selection, board: Board, needs: Needs
) -> list[Waiting]:
    """Return one entry for every job without seats, in the order of the policy."""
    granted = board.server[: len(snapshot.jobs)] != NO_ROW
    causes = _Causes(snapshot, line, shapes, tree, selection, needs, granted, board.space.free)
    rows = line.order[~granted[line.order]].tolist()
    waiting = []
    for position, row in enumerate(rows, start=1):
        reason, evidence = causes.of(row)
        waiting.append(Waiting(job=row, position=position, reason=reason, evidence=evidence))
    return waiting


class _Causes:
    def __init__(
        self,
        snapshot: Snapshot,
        line: Line,
        shapes: Shapes,
        tree: QueueTree,
        selection: Selection,
        needs: Needs,
        granted: BoolArray,
        free: list[int],
    ) -> None:
        jobs = snapshot.jobs
        self._snapshot, self._shapes, self._tree, self._selection = snapshot, shapes, tree, selection
        self._needs = needs
        self._gpus: list[int] = jobs.num_gpus.tolist()
        self._queue: list[int] = jobs.queue.tolist()
        self._shape: list[int] = shapes.shape.tolist()
        self._possible: list[bool] = shapes.possible.tolist()
        self._standing: list[int] = line.admission.standing.tolist()
        self._position: list[int] = line.position.tolist()
        self._total = int(snapshot.servers.num_gpus.sum())
        self._free_gpus = sum(free)
        self._largest_free = max(free, default=0)
        in_order = np.where(granted[line.order], jobs.num_gpus[line.order], 0)
        self._ahead: list[int] = (np.cumsum(in_order) - in_order).tolist()
        self._held: list[int] = subtree_sums(tree, jobs.queue[granted], jobs.num_gpus[granted]).tolist()
        self._overtakers = _last_granted(line, granted, self._queue)
        # Most jobs that wait do so for one of these: by GPUs, and by GPUs and what those before them hold.
        self._no_capacity: dict[int, Cause] = {}
        self._behind: dict[tuple[int, int], Cause] = {}

    def of(self, row: int) -> Cause:
        gpus = self._gpus[row]
        if not self._total:
            return WaitReason.NO_SERVER, {"needed_gpus": gpus, "servers": len(self._snapshot.servers)}
        if not self._possible[row]:
            return self._never(row)
        refusal = self._selection.refusals[row]
        if refusal.full_queue != NO_ROW:
            return self._full_queue(row, refusal.full_queue)
        if refusal.behind != NO_ROW:
            return WaitReason.BEHIND_POLICY_ORDER, {"needed_gpus": gpus, "first_needs_gpus": self._gpus[refusal.behind]}
        if refusal.open_gpus >= gpus:
            return self._scattered(row, refusal)
        position = self._position[row]
        ahead = self._ahead[position]
        if self._total - ahead < gpus:
            if (gpus, ahead) not in self._behind:
                numbers: Evidence = {**self._free(gpus), "ahead_gpus": ahead}
                self._behind[gpus, ahead] = WaitReason.BEHIND_POLICY_ORDER, numbers
            return self._behind[gpus, ahead]
        for overtaker in self._overtakers[self._standing[row]]:
            if self._position[overtaker] > position and self._queue[overtaker] != self._queue[row]:
                return self._over_quota(row, overtaker)
        if gpus not in self._no_capacity:
            self._no_capacity[gpus] = WaitReason.NO_CAPACITY, self._free(gpus)
        return self._no_capacity[gpus]

    def _free(self, gpus: int) -> Evidence:
        return {"needed_gpus": gpus, "free_gpus": self._free_gpus, "total_gpus": self._total}

    def _never(self, row: int) -> Cause:
        largest = int(self._shapes.largest_gang[self._shape[row]])
        servers = self._snapshot.servers
        evidence: Evidence = {
            "needed_gpus": self._gpus[row],
            "largest_possible_gpus": largest,
            "servers": len(servers),
            "max_servers": int(self._snapshot.jobs.max_servers[row]),
        }
        if self._needs.tight:
            evidence["needed_cpus"] = float(self._snapshot.jobs.min_cpus[row])
            evidence["needed_memory_bytes"] = float(self._snapshot.jobs.min_memory_bytes[row])
        return WaitReason.NEVER_FEASIBLE, evidence

    def _queue_numbers(self, row: int, queue: int) -> Evidence:
        return {
            "needed_gpus": self._gpus[row],
            "queue_id": int(self._snapshot.queues.queue_id[queue]),
            "queue_held_gpus": self._held[queue],
            "queue_quota_gpus": self._tree.quota[queue],
        }

    def _full_queue(self, row: int, queue: int) -> Cause:
        most = int(self._snapshot.queues.max_gpus[queue])
        numbers = self._queue_numbers(row, queue)
        if self._tree.cap[queue] == most:
            return WaitReason.QUEUE_MAX, {**numbers, "queue_max_gpus": most}
        return WaitReason.QUEUE_QUOTA, {**numbers, "may_borrow": 0}

    def _over_quota(self, row: int, overtaker: int) -> Cause:
        path = self._tree.paths[self._queue[row]]
        # The queue nearest the root that holds what it is entitled to is the one that others are let in before.
        over = [node for node in path if self._held[node] + self._gpus[row] > self._tree.quota[node]]
        other = int(self._snapshot.queues.queue_id[self._queue[overtaker]])
        numbers = self._queue_numbers(row, over[-1] if over else path[0])
        return WaitReason.QUEUE_QUOTA, {**numbers, "may_borrow": 1, "other_queue_id": other}

    def _scattered(self, row: int, refusal: Refusal) -> Cause:
        numbers: Evidence = {
            "needed_gpus": self._gpus[row],
            "free_gpus": self._free_gpus,
            "largest_free_gpus": self._largest_free,
            "max_servers": int(self._snapshot.jobs.max_servers[row]),
        }
        if not refusal.starved:
            return WaitReason.FRAGMENTATION, numbers
        least, share = self._needs.cpus_least[row], self._needs.cpus_share
        cpus = must_have(least, self._needs.cpus_most[row], share).max() * self._gpus[row]
        least, share = self._needs.memory_least[row], self._needs.memory_share
        memory = must_have(least, self._needs.memory_most[row], share).max() * self._gpus[row]
        return WaitReason.CPU_OR_MEMORY, {
            **numbers,
            "needed_cpus": round(float(cpus), 3),
            "needed_memory_bytes": float(memory),
        }


def _last_granted(line: Line, granted: BoolArray, queue: list[int]) -> dict[int, list[int]]:
    """Return for each standing the last jobs of two queues that were granted with a stronger one, the last first."""
    last: dict[int, list[int]] = {}
    stronger: dict[int, int] = {}  # by queue
    for level in Standing:
        last[int(level)] = sorted(stronger.values(), key=lambda row: -int(line.position[row]))[:2]
        for row in line.order[(granted & (line.admission.standing == level))[line.order]].tolist():
            before = stronger.get(queue[row])
            if before is None or line.position[row] > line.position[before]:
                stronger[queue[row]] = row
    return last
