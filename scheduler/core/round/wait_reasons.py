"""Why each job without GPUs waits: the constraint that binds and its numbers. Read by pages, events and the API."""

from functools import cached_property
from typing import cast

import numpy as np

from scheduler.core.model.barred import NO_SERVERS, Barred, queue_barred_rows, unprepared_rows
from scheduler.core.model.cpu_memory_bounds import Needs, must_have
from scheduler.core.model.plan import Cause, Evidence, WaitReason, Waits
from scheduler.core.model.queue_tree import QueueTree, subtree_sums
from scheduler.core.model.tables import NO_ROW, BoolArray, IntArray, Placements, Snapshot
from scheduler.core.packing.board import Board
from scheduler.core.packing.selection import Refusal, Selection
from scheduler.core.round.admission import Standing
from scheduler.core.round.claim_order import Line
from scheduler.core.round.feasibility import Shapes, usable_gpus
from scheduler.core.round.user_limits import Beyond, limit_cause, needed_gpus


def explain(
    snapshot: Snapshot,
    *,
    line: Line,
    shapes: Shapes,
    tree: QueueTree,
    selection: Selection,
    board: Board,
    needs: Needs,
    grants: Placements,
    unshared: BoolArray,
) -> Waits:
    """Return why every job without seats waits, in the order of the policy.

    ``grants`` are those of the mechanism, which may have moved jobs that start; ``unshared`` are the (n,) jobs to which
    a share policy gives nothing.
    """
    granted = board.server[: len(snapshot.jobs)] != NO_ROW
    free = _free_gpus(snapshot, board, grants)
    causes = _Causes(snapshot, line, shapes, tree, selection, needs, granted, free, unshared)
    rows = line.order[~granted[line.order]]
    return Waits(job=rows, causes=causes.of_all(rows))


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
        unshared: BoolArray,
    ) -> None:
        jobs = snapshot.jobs
        self._snapshot, self._shapes, self._tree, self._selection = snapshot, shapes, tree, selection
        self._needs = needs
        self._line, self._granted = line, granted
        self._total = int(snapshot.servers.num_gpus.sum())
        self._free = free
        self._free_gpus = sum(free)
        self._unshared: frozenset[int] = frozenset(np.flatnonzero(unshared).tolist())
        in_order = np.where(granted[line.order], jobs.num_gpus[line.order], 0)
        self._ahead: IntArray = (np.cumsum(in_order) - in_order)[line.position]
        self._held: list[int] = subtree_sums(tree, jobs.queue[granted], jobs.num_gpus[granted]).tolist()
        self._no_capacity: dict[int, Cause] = {}

    # Lists of all jobs are made on first use: often all waiting jobs wait behind the same ones and need no list.

    @cached_property
    def _gpus(self) -> list[int]:
        return cast(list[int], self._snapshot.jobs.num_gpus.tolist())

    @cached_property
    def _queue(self) -> list[int]:
        return cast(list[int], self._snapshot.jobs.queue.tolist())

    @cached_property
    def _by_queue(self) -> Barred:
        return queue_barred_rows(self._snapshot)

    @cached_property
    def _unprepared(self) -> Barred:
        return unprepared_rows(self._snapshot)

    @cached_property
    def _possible(self) -> list[bool]:
        return cast(list[bool], self._shapes.possible.tolist())

    @cached_property
    def _standing(self) -> list[int]:
        return cast(list[int], self._line.admission.standing.tolist())

    @cached_property
    def _overtakers(self) -> dict[int, list[int]]:
        return _last_granted(self._line, self._granted, self._snapshot.jobs.queue)

    def of_all(self, rows: IntArray) -> list[Cause]:
        """Return the causes of jobs in the order of the policy."""
        refusals, causes = self._selection.refusals, []
        gpus, ahead = self._snapshot.jobs.num_gpus[rows], self._ahead[rows]
        is_late = self._shapes.possible[rows] & (self._total - ahead < gpus)
        columns = (rows, gpus, ahead, is_late & (self._total > 0))
        last_ahead, behind = -1, dict[int, Cause]()
        for row, num_gpus, ahead_gpus, late in zip(*(column.tolist() for column in columns), strict=True):
            if late:
                # Most waiting jobs wait behind the same others: one cause for each size serves them all.
                full_queue, open_gpus, _, first = refusals[row]
                if full_queue == NO_ROW and first == NO_ROW and open_gpus < num_gpus:
                    if ahead_gpus != last_ahead:
                        last_ahead, behind = ahead_gpus, {}
                    if num_gpus not in behind:
                        numbers: Evidence = {**self._numbers(num_gpus), "ahead_gpus": ahead_gpus}
                        behind[num_gpus] = WaitReason.BEHIND_POLICY_ORDER, numbers
                    causes.append(behind[num_gpus])
                    continue
            causes.append(self._of(row))
        return causes

    def _of(self, row: int) -> Cause:
        gpus = self._gpus[row]
        if not self._total:
            return WaitReason.NO_SERVER, {"needed_gpus": gpus, "servers": len(self._snapshot.servers)}
        if row in self._unshared:
            return self._without_share(row)
        if not self._possible[row]:
            return self._never(row)
        refusal = self._selection.refusals[row]
        if refusal.full_queue != NO_ROW:
            return self._full_queue(row, refusal.full_queue)
        if refusal.behind != NO_ROW:
            return WaitReason.BEHIND_POLICY_ORDER, {"needed_gpus": gpus, "first_needs_gpus": self._gpus[refusal.behind]}
        if refusal.open_gpus >= gpus:
            return self._scattered(row, refusal)
        position = self._line.position
        for overtaker in self._overtakers[self._standing[row]]:
            later = position[overtaker] > position[row] and self._queue[overtaker] != self._queue[row]
            if later and (over := self._nodes_over_quota(row, overtaker)):
                return self._over_quota(row, over[-1], overtaker)
        if gpus not in self._no_capacity:
            self._no_capacity[gpus] = WaitReason.NO_CAPACITY, self._numbers(gpus)
        return self._no_capacity[gpus]

    def _of_owner(self, row: int) -> int:
        """Return the GPUs that the owner's jobs hold in the queue of the job, or have a share for."""
        jobs = self._snapshot.jobs
        mates = (jobs.queue == jobs.queue[row]) & (jobs.owner == jobs.owner[row])
        return int(jobs.num_gpus[mates & (self._granted | self._shapes.possible)].sum())

    def _numbers(self, gpus: int) -> Evidence:
        return {"needed_gpus": gpus, "free_gpus": self._free_gpus, "total_gpus": self._total}

    def _isolation(self, row: int) -> Cause:
        evidence: Evidence = {
            "needed_gpus": self._gpus[row],
            "queue_id": int(self._snapshot.queues.queue_id[self._queue[row]]),
            "barred_servers": len(self._by_queue[self._queue[row]]),
            "servers": len(self._snapshot.servers),
        }
        open_gpus = usable_gpus(row, self._snapshot.servers, self._needs, self._by_queue[self._queue[row]])
        if (largest := self._most_gpus(row, open_gpus)) < self._gpus[row]:
            evidence["largest_possible_gpus"] = largest
        return WaitReason.ISOLATION, evidence

    def _preparing(self, row: int) -> Cause:
        servers = len(self._snapshot.servers)
        evidence: Evidence = {
            "needed_gpus": self._gpus[row],
            "ready_servers": servers - len(self._unprepared[row]),
            "servers": servers,
        }
        return WaitReason.PREPARING_ENVIRONMENT, evidence

    def _could_use(self, row: int, barred: frozenset[int]) -> bool:
        """Return whether the servers could hold the job if no others were barred to it."""
        gpus = usable_gpus(row, self._snapshot.servers, self._needs, barred)
        return self._most_gpus(row, gpus) >= self._gpus[row]

    def _most_gpus(self, row: int, gpus: IntArray) -> int:
        """Return the most GPUs that the job could get where each server has so many for it."""
        most = int(self._snapshot.jobs.max_servers[row]) or len(gpus)
        return int(np.sort(gpus)[::-1][:most].sum())

    def _without_share(self, row: int) -> Cause:
        """Return what keeps a job from the GPUs that a share policy gave to others."""
        gpus, path = self._gpus[row], self._tree.paths[self._queue[row]]
        full = next((node for node in path if self._held[node] + gpus > self._tree.cap[node]), NO_ROW)
        if full != NO_ROW:
            return self._full_queue(row, full)
        limit = int(self._snapshot.queues.user_max_gpus[self._queue[row]])
        if limit and (held := self._of_owner(row)) + gpus > limit:
            return limit_cause(self._snapshot, row, Beyond(limit_gpus=limit, held_gpus=held))
        if self._free_gpus >= gpus:
            starved = self._needs.tight and self._most_gpus(row, np.array(self._free)) >= gpus
            return self._scattered(row, Refusal(full_queue=NO_ROW, open_gpus=self._free_gpus, starved=starved))
        over = [node for node in path if self._held[node] + gpus > self._tree.quota[node]]
        held = int(self._snapshot.jobs.num_gpus[self._granted].sum())
        if over and held > self._held[over[-1]]:
            return WaitReason.QUEUE_QUOTA, {**self._queue_numbers(row, over[-1]), "may_borrow": 1}
        return WaitReason.BEHIND_POLICY_ORDER, self._numbers(gpus)

    def _never(self, row: int) -> Cause:
        by_queue = self._by_queue.get(self._queue[row], NO_SERVERS)
        if row in self._unprepared and self._could_use(row, by_queue):
            return self._preparing(row)
        if by_queue and self._could_use(row, NO_SERVERS):
            return self._isolation(row)
        servers = self._snapshot.servers
        evidence: Evidence = {
            "needed_gpus": self._gpus[row],
            "largest_possible_gpus": self._most_gpus(row, usable_gpus(row, servers, self._needs, NO_SERVERS)),
            "servers": len(servers),
            "max_servers": int(self._snapshot.jobs.max_servers[row]),
        }
        if self._needs.tight:
            evidence["needed_cpus"] = float(self._snapshot.jobs.min_cpus[row])
            evidence["needed_memory_bytes"] = float(self._snapshot.jobs.min_memory_bytes[row])
        return WaitReason.NEVER_FEASIBLE, evidence

    def _queue_numbers(self, row: int, queue: int) -> Evidence:
        return {
            **needed_gpus(self._snapshot.jobs, row),
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

    def _nodes_over_quota(self, row: int, overtaker: int) -> list[int]:
        """Return the queues above the job, but not above the other, that would hold more than their quota with it."""
        above_other = self._tree.paths[self._queue[overtaker]]
        apart = [node for node in self._tree.paths[self._queue[row]] if node not in above_other]
        return [node for node in apart if self._held[node] + self._gpus[row] > self._tree.quota[node]]

    def _over_quota(self, row: int, queue: int, overtaker: int) -> Cause:
        numbers = self._queue_numbers(row, queue)
        other = int(self._snapshot.queues.queue_id[self._queue[overtaker]])
        borrows = int(self._standing[overtaker] != Standing.COVERED)
        return WaitReason.QUEUE_QUOTA, {**numbers, "may_borrow": 1, "other_queue_id": other, "other_borrows": borrows}

    def _scattered(self, row: int, refusal: Refusal) -> Cause:
        jobs, gpus, free = self._snapshot.jobs, self._gpus[row], np.array(self._free)
        enough = self._most_gpus(row, free) >= gpus
        numbers: Evidence = {
            "needed_gpus": gpus,
            "free_gpus": self._free_gpus,
            "largest_free_gpus": max(self._free, default=0),
            "max_servers": int(jobs.max_servers[row]),
        }
        if not refusal.starved:
            return WaitReason.FRAGMENTATION, {**numbers, "too_spread": 1} if enough else numbers
        by_queue = self._by_queue.get(self._queue[row], NO_SERVERS)
        closed = by_queue | self._unprepared.get(row, NO_SERVERS)
        if closed:
            now, empty = free, self._snapshot.servers.num_gpus.copy()
            now[list(closed)] = empty[list(closed)] = 0
            insists = self._needs.cpus_least[row] > 0 or self._needs.memory_least[row] > 0
            full = enough and self._most_gpus(row, now) < gpus
            if not insists or full or self._most_gpus(row, empty) < gpus:
                if row in self._unprepared and self._could_use(row, by_queue):
                    return self._preparing(row)
                if by_queue and self._could_use(row, NO_SERVERS):
                    return self._isolation(row)
        least, share = self._needs.cpus_least[row], self._needs.cpus_share
        cpus = must_have(least, self._needs.cpus_most[row], share).max() * self._gpus[row]
        least, share = self._needs.memory_least[row], self._needs.memory_share
        memory = must_have(least, self._needs.memory_most[row], share).max() * self._gpus[row]
        return WaitReason.CPU_OR_MEMORY, {
            **numbers,
            "needed_cpus": round(float(cpus), 3),
            "needed_memory_bytes": float(memory),
        }


def _free_gpus(snapshot: Snapshot, board: Board, grants: Placements) -> list[int]:
    """Return the GPUs of each server that no job has and none outside the round is leaving."""
    free: IntArray = snapshot.servers.num_gpus.copy()
    np.subtract.at(free, grants.server, grants.num_gpus)
    for row in range(len(snapshot.jobs), len(board.num_gpus)):
        for server, gpus in board.seats.get(row, ()):
            free[server] -= gpus
    return cast(list[int], free.tolist())


def _last_granted(line: Line, granted: BoolArray, queue: IntArray) -> dict[int, list[int]]:
    """Return for each standing the last jobs of two queues that were granted with a stronger one, the last first."""
    last: dict[int, list[int]] = {}
    stronger: dict[int, int] = {}  # by queue
    for level in Standing:
        last[int(level)] = sorted(stronger.values(), key=lambda row: -int(line.position[row]))[:2]
        rows = line.order[(granted & (line.admission.standing == level))[line.order]].tolist()
        for own, row in dict(zip(queue[rows].tolist(), rows, strict=True)).items():  # the last of each queue
            if own not in stronger or line.position[row] > line.position[stronger[own]]:
                stronger[own] = row
    return last
