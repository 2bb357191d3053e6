"""The order across queues under a policy that serves the queue that holds least, from what queues hold.

The key of a job moves with all that its queue holds and with all that wait before it there, so no key lasts. What lasts
is the line of each queue (``waiting_lines``), and a key follows from it when it is asked for. Used by ``QueueRounds``;
tests/property/test_simulator_queue_rounds.py holds its plans equal to those of ``plan_round``.
"""

from bisect import bisect_left

import numpy as np

from scheduler.core.packing.board import Board
from scheduler.core.performance.resources import rounded_share
from scheduler.core.round.capabilities import FillsQueues
from scheduler.simulator.incremental.orders.waiting_lines import KeptLines
from scheduler.simulator.incremental.planner_input import PlannerInput
from scheduler.simulator.incremental.walks.preemption_candidates import Key


class QueueShares:
    """Keys of waiting jobs in one round after the other."""

    def __init__(self, given: PlannerInput, policy: FillsQueues, board: Board, lines: KeptLines) -> None:
        self._policy, self._queues, self._board, self._lines = policy, given.queues, board, lines
        self._capacity_gpus = max(1.0, float(given.servers.num_gpus.sum()))
        self._busy: list[int] = []
        self._weight: list[float] = []
        self.begin()

    def begin(self) -> None:
        """Begin a round: what queues hold now is what counts."""
        self._held = self._board.held_gpus.copy()
        busy = [queue for queue, has in enumerate(self._held) if has or self._lines.of_queue[queue]]
        if busy != self._busy:
            self._busy = busy
            self._weight = self._policy.weights(self._queues, np.array(busy, dtype=np.int64)).tolist()

    def key(self, queue: int, key: Key) -> Key:
        """Return the key among all queues of a waiting job of which ``key`` is that inside its own."""
        lines, before = self._lines, self._held[queue]
        for number in lines.of_queue[queue]:
            before += bisect_left(lines.lines[number], key) * lines.gpus_of_line[number]
        return rounded_share(before / self._weight[queue] / self._capacity_gpus), *key[1:]
