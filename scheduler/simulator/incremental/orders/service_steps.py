"""When running jobs reach the attained services at which their key changes (``StepsByService``).

Keys with the same whole part are a *tier*. Most steps stay inside a tier, so running jobs are sorted by tier, and keys
inside a tier are computed only where they make a difference. Used by ``SingleQueueRounds``.
"""

import math
from bisect import bisect_right
from collections.abc import Sequence
from heapq import heappop, heappush

from scheduler.core.model.tables import FloatArray
from scheduler.simulator.state.columns import Columns, cells

# Policies round up to whole seconds, so a job may be past its step up to a second before.
_EARLY_S = 1.0
_TOGETHER_S = 1e-3


class ServiceSteps:
    """Running jobs by the time at which each reaches its next tier.

    Attributes:
        ceilings: For each key the largest one of its tier.
    """

    def __init__(self, columns: Columns, services_gpu_s: FloatArray, keys: FloatArray) -> None:
        """Begin with no jobs; services and keys are those of ``StepsByService``."""
        self._services: list[float] = services_gpu_s.tolist()
        self._keys: list[float] = keys.tolist()
        tiers = [math.floor(key) for key in self._keys]
        highest: dict[int, float] = {}
        for tier, key in zip(tiers, self._keys, strict=True):
            highest[tier] = max(key, highest.get(tier, key))
        self.ceilings = {key: highest[tier] for tier, key in zip(tiers, self._keys, strict=True)}
        # By step: the first step from there on that leads to another tier.
        last = len(self._services)
        self._turn = [
            next((at for at in range(step, last) if tiers[at + 1] != tiers[step]), last) for step in range(last + 1)
        ]
        self._highest_inside = max((high for key, high in self.ceilings.items() if key != high), default=-math.inf)
        self._inside: set[int] = set()  # jobs with a step ahead inside their tier
        self._attained_gpu_s, self._held = cells(columns.attained_gpu_s), cells(columns.held_gpus)
        self._since_s = cells(columns.since_s)
        self._num_gpus: list[int] = columns.num_gpus.tolist()
        # A heap, whose entries count while they are the present one of their job.
        self._queue: list[tuple[float, int]] = []
        self._next_s: dict[int, float] = {}

    def sit(self, row: int, now_s: float) -> float:
        """Take in a job that starts or goes on; return its present key."""
        attained_gpu_s = self._attained(row, now_s)
        step = bisect_right(self._services, attained_gpu_s)
        turn = self._turn[step]
        if step < turn:
            self._inside.add(row)
        elif self._inside:
            self._inside.discard(row)
        if turn < len(self._services):
            self._next_s[row] = at_s = now_s + (self._services[turn] - attained_gpu_s) / self._num_gpus[row]
            heappush(self._queue, (at_s, row))
        else:
            self._next_s.pop(row, None)
        return self._keys[step]

    def _attained(self, row: int, now_s: float) -> float:
        return self._attained_gpu_s[row] + (now_s - self._since_s[row]) * self._held[row]

    def keys(self, rows: Sequence[int], now_s: float) -> list[float]:
        """Return the present keys of running jobs."""
        return [self._keys[bisect_right(self._services, self._attained(row, now_s))] for row in rows]

    def leave(self, row: int) -> None:
        """Take in that a job left its seats."""
        self._next_s.pop(row, None)
        self._inside.discard(row)

    def passed(self, now_s: float) -> list[tuple[int, float]]:
        """Return the jobs that reached another tier, or are about to, with their present keys."""
        rows = []
        while self._queue and self._queue[0][0] - _EARLY_S <= now_s:
            at_s, row = heappop(self._queue)
            if self._next_s.get(row) == at_s:
                rows.append(row)
        return [(row, self.sit(row, now_s)) for row in rows]

    def next_inside_s(self, now_s: float, above: float) -> float:
        """Return when the first job reaches a step inside a tier that has keys of at least ``above``; +inf for never.

        It is whole seconds after now, as policies say it, as in ``next_tier_s``.
        """
        ahead_s = math.inf
        if above <= self._highest_inside:
            for row in self._inside:
                step = bisect_right(self._services, self._attained(row, now_s))
                if self.ceilings[self._keys[step]] >= above:
                    ahead_s = min(ahead_s, self._ahead_s(row, now_s, step))
        return now_s + ahead_s

    def next_tier_s(self, now_s: float) -> float:
        """Return when the first job reaches another tier; +inf for never."""
        ahead_s = math.inf
        queue, next_s = self._queue, self._next_s
        while queue and next_s.get(queue[0][1]) != queue[0][0]:
            heappop(queue)
        if queue:
            # Float sums may be off by a little, so all jobs that get there together are looked at.
            latest_s, at = queue[0][0] + _TOGETHER_S, [0]
            while at:
                place = at.pop()
                if place < len(queue) and queue[place][0] <= latest_s:
                    at += (2 * place + 1, 2 * place + 2)
                    at_s, row = queue[place]
                    if next_s.get(row) == at_s:
                        step = bisect_right(self._services, self._attained(row, now_s))
                        ahead_s = min(ahead_s, self._ahead_s(row, now_s, self._turn[step]))
        return now_s + ahead_s

    def _ahead_s(self, row: int, now_s: float, step: int) -> float:
        if step == len(self._services):
            return math.inf
        missing_gpu_s = self._services[step] - self._attained(row, now_s)
        return math.ceil(missing_gpu_s / self._num_gpus[row])
