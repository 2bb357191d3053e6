"""Which waiting jobs a round of many queues looks at, so that it costs the same however many jobs wait.

Jobs of one queue that ask for the same stand in one line, in the order of the policy. A round is made with the first
few of each line. When the last of those is beyond the fair share of its queue and refused, and no job leaves its seats
for a claim after it, all behind it would be refused as well: quota, share and room only shrink along a line. Where that
does not hold, the round is made again with more. Used by ``QueueRounds``;
tests/property/test_simulator_queue_rounds.py holds its plans equal to those of ``plan_round``.
"""

import math
from bisect import bisect_left, insort
from collections.abc import Sequence

import numpy as np

from scheduler.core.model.changes import Changes
from scheduler.core.model.numbering import numbered
from scheduler.core.model.tables import FloatArray, IntArray, Snapshot
from scheduler.core.round.capabilities import FillsQueues, MayBackfill, Steady
from scheduler.core.round.config import Policy
from scheduler.simulator.incremental.planner_input import PlannerInput
from scheduler.simulator.incremental.walks.preemption_candidates import Key
from scheduler.simulator.state.columns import cells
from scheduler.simulator.state.world import World

# Jobs of each line that are looked at first; where these are too few, _MORE times as many in the next try.
_FEWEST, _MORE = 4, 4


def keeps_lines(given: PlannerInput, policy: Policy) -> bool:
    """Return whether the line of a queue stays as it is while its jobs wait, and jobs may be stepped over."""
    in_line = isinstance(policy, MayBackfill) and not policy.backfill
    if isinstance(policy, FillsQueues):
        # Jobs that can never run stand in no line, and count for those behind them in the order across queues.
        return not policy.preemptive and bool(given.demands.shapes.possible.all())
    return isinstance(policy, Steady) and policy.steady and not in_line


class KeptLines:
    """All waiting jobs by line, with their keys inside their queue. Jobs are rows of the workload.

    Attributes:
        lines: Those with jobs, by number, each in the order of the policy.
        of_queue: (k,) numbers of the lines with jobs of each queue.
        of_shape: Numbers of the lines with jobs, by what each job asks for.
        gpus_of_queue: (k,) GPUs that waiting jobs of each queue ask for.
        queue_of_line, gpus_of_line, shape_of_line: By number, the queue, and what each job asks for.
        shape: (n,) number of what each job asks for.
        line: (n,) number of the line of each job.
    """

    def __init__(self, given: PlannerInput, policy: Policy, *, num_queues: int) -> None:
        """Begin without jobs."""
        columns, demands = given.columns, given.demands
        self._columns, self._policy, self._servers, self._queues = columns, policy, given.servers, given.queues
        shapes = np.array(demands.shape, dtype=np.int64)
        numbers, line = numbered(columns.queue * (int(shapes.max(initial=0)) + 1) + shapes)
        first = np.zeros(len(numbers), dtype=np.int64)
        first[line[::-1]] = np.arange(len(line))[::-1]
        self.line: list[int] = line.tolist()
        self.shape = demands.shape
        self.queue_of_line: list[int] = columns.queue[first].tolist()
        self.gpus_of_line: list[int] = columns.num_gpus[first].tolist()
        self.gpus_of_queue = [0] * num_queues
        self.of_queue: list[set[int]] = [set() for _ in range(num_queues)]
        self.shape_of_line: list[int] = [demands.shape[row] for row in first.tolist()]
        self.of_shape: dict[int, set[int]] = {}
        self._possible: list[bool] = demands.shapes.possible.tolist()
        self._num_queues = num_queues
        self._first_come = isinstance(policy, FillsQueues)  # the order inside a queue
        self._first_key: list[float] = self.present(np.arange(len(columns)), 0.0).tolist()
        self._first_start_s, self._arrival_s = cells(columns.first_start_s), cells(columns.arrival_s)
        self._ended = cells(columns.ended)
        self._keys: dict[int, Key] = {}
        self.lines: dict[int, list[Key]] = {}
        self._depth: dict[int, int] = {}
        self._stopped: list[int] = []  # jobs that left their seats in the last round

    def follow(self, arrived: Sequence[int], now_s: float) -> None:
        """Take in the jobs that wait since the last round."""
        new = [row for row in (*arrived, *self._stopped) if self._possible[row] and not self._ended[row]]
        self._stopped = []
        before = [row for row in new if self._first_start_s[row] < math.inf]
        keys = {key[3]: key for key in self.keys(before, now_s)}
        for row in new:
            key = keys.get(row) or (self._first_key[row], math.inf, self._arrival_s[row], row)
            self._keys[row] = key
            number = self.line[row]
            queue = self.queue_of_line[number]
            line = self.lines.get(number)
            if line is None:
                self.lines[number] = [key]
                self.of_queue[queue].add(number)
                self.of_shape.setdefault(self.shape_of_line[number], set()).add(number)
            else:
                insort(line, key)
            self.gpus_of_queue[queue] += self.gpus_of_line[number]

    def keys(self, rows: list[int], now_s: float) -> list[Key]:
        """Return the present keys of some jobs."""
        if not rows:
            return []
        first_start_s, arrival_s = self._first_start_s, self._arrival_s
        present: list[float] = self.present(np.array(rows, dtype=np.int64), now_s).tolist()
        return [(key, first_start_s[row], arrival_s[row], row) for row, key in zip(rows, present, strict=True)]

    def key(self, row: int) -> Key:
        """Return the key of a waiting job."""
        return self._keys[row]

    def note(self, changes: Changes) -> None:
        """Take in what a round changed."""
        self._stopped = [row for row in changes.stopped if row not in changes.started]  # others moved
        for row in changes.started:
            key = self._keys.pop(row, None)
            if key is not None:
                self._leave(self.line[row], key)

    def _leave(self, number: int, key: Key) -> None:
        line, queue = self.lines[number], self.queue_of_line[number]
        del line[bisect_left(line, key)]
        self.gpus_of_queue[queue] -= self.gpus_of_line[number]
        if not line:
            del self.lines[number]
            self.of_queue[queue].discard(number)
            shape = self.shape_of_line[number]
            self.of_shape[shape].discard(number)
            if not self.of_shape[shape]:
                del self.of_shape[shape]

    def __len__(self) -> int:
        return len(self._keys)

    def looked(self, world: World) -> tuple[IntArray, list[int], IntArray | None]:
        """Return the jobs that a round looks at, and what stands behind them in their lines.

        Returns:
            Running jobs and the first waiting ones of each line, ascending; of each line of which not all are among
            them the last one that is; and (k,) the GPUs that those behind ask for, by queue, None when no job is.
        """
        rows = list(self._stopped)
        last: list[int] = []
        behind = [0] * self._num_queues
        for number, line in self.lines.items():
            depth = self._depth.get(number, _FEWEST)
            if len(line) > 2 * depth:
                last.append(line[depth - 1][3])
                behind[self.queue_of_line[number]] += (len(line) - depth) * self.gpus_of_line[number]
                line = line[:depth]
            rows += [key[3] for key in line]
        if not last:
            return self._columns.active, [], None
        looked = np.array([*world.seats, *rows], dtype=np.int64)
        looked.sort()
        return looked, last, np.array(behind, dtype=np.int64)

    def deepen(self, rows: Sequence[int]) -> None:
        """Look at more jobs of the lines of some jobs."""
        for row in rows:
            number = self.line[row]
            self._depth[number] = self._depth.get(number, _FEWEST) * _MORE

    def relax(self) -> None:
        """Look at fewer jobs in the next round where more were needed in this one."""
        if self._depth:
            self._depth = {number: depth - 1 for number, depth in self._depth.items() if depth - 1 > _FEWEST}

    def present(self, rows: IntArray, now_s: float) -> FloatArray:
        """Return what stands first in the present keys of some jobs."""
        if self._first_come:
            return np.zeros(len(rows))
        jobs = self._columns.look(rows, now_s)
        snapshot = Snapshot(now_s=now_s, jobs=jobs, servers=self._servers, queues=self._queues)
        return self._policy.priority(snapshot)
