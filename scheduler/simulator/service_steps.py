"""When running jobs pass the services at which their policy counts them otherwise."""

import math
from bisect import bisect_right
from heapq import heappop, heappush

from scheduler.core.tables import FloatArray
from scheduler.simulator.columns import Columns, cells

# Policies round up to whole seconds, so a job may be past its step up to a second before.
_EARLY_S = 1.0
_TOGETHER_S = 1e-3


class Steps:
    """Running jobs by the time at which each reaches its next step."""

    def __init__(self, columns: Columns, services_gpu_s: FloatArray, keys: FloatArray) -> None:
        """Begin with nobody; services and keys are those of ``StepsByService``."""
        self._services: list[float] = services_gpu_s.tolist()
        self._keys: list[float] = keys.tolist()
        self._attained_gpu_s, self._held = cells(columns.attained_gpu_s), cells(columns.held_gpus)
        self._since_s, self._num_gpus = cells(columns.since_s), columns.num_gpus.tolist()
        # A heap, whose entries count while they are the present one of their job.
        self._queue: list[tuple[float, int]] = []
        self._next_s: dict[int, float] = {}

    def sit(self, row: int, now_s: float) -> float:
        """Let a job begin or go on; return its present key."""
        attained_gpu_s = self._attained(row, now_s)
        step = bisect_right(self._services, attained_gpu_s)
        if step < len(self._services):
            self._next_s[row] = at_s = now_s + (self._services[step] - attained_gpu_s) / self._num_gpus[row]
            heappush(self._queue, (at_s, row))
        else:
            self._next_s.pop(row, None)
        return self._keys[step]

    def _attained(self, row: int, now_s: float) -> float:
        return self._attained_gpu_s[row] + (now_s - self._since_s[row]) * self._held[row]

    def leave(self, row: int) -> None:
        """Note that a job left its seats."""
        self._next_s.pop(row, None)

    def passed(self, now_s: float) -> list[tuple[int, float]]:
        """Return the jobs that reached a step, or are about to, with their present keys."""
        rows = []
        while self._queue and self._queue[0][0] - _EARLY_S <= now_s:
            at_s, row = heappop(self._queue)
            if self._next_s.get(row) == at_s:
                rows.append(row)
        return [(row, self.sit(row, now_s)) for row in rows]

    def next_s(self, now_s: float) -> float:
        """Return when the first job reaches a step, whole seconds after now as policies say it; +inf for never."""
        queue, next_s = self._queue, self._next_s
        while queue and next_s.get(queue[0][1]) != queue[0][0]:
            heappop(queue)
        if not queue:
            return math.inf
        # Sums of the past may be off by a little, so all who get there together are asked.
        latest_s, ahead_s, at = queue[0][0] + _TOGETHER_S, math.inf, [0]
        while at:
            place = at.pop()
            if place < len(queue) and queue[place][0] <= latest_s:
                at += (2 * place + 1, 2 * place + 2)
                at_s, row = queue[place]
                if next_s.get(row) == at_s:
                    attained_gpu_s = self._attained(row, now_s)
                    step = bisect_right(self._services, attained_gpu_s)
                    if step < len(self._services):
                        missing_gpu_s = self._services[step] - attained_gpu_s
                        ahead_s = min(ahead_s, math.ceil(missing_gpu_s / self._num_gpus[row]))
        return now_s + ahead_s
