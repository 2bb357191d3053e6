"""When a running job next passes another one in the order of its queues, so that no round is skipped that matters.

A quota covers jobs in their order. In one queue nothing follows from an overtaking, as running never makes a job
weaker. With several queues, the job that falls behind may lose its cover, and a job of another queue its GPUs.
"""

import math
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import numpy as np

from scheduler.core.model.queue_tree import queue_tree
from scheduler.core.model.tables import FloatArray, IntArray, QueueTable, ServerTable, Snapshot
from scheduler.core.round.capabilities import ChangesBySelf, Steady
from scheduler.core.round.config import Policy
from scheduler.simulator.state.world import World

_DUST = 1e-9
# Jobs with equal keys are looked at again after so long: which one falls behind shows only then.
_LOOK_AGAIN_S = 1.0


class Overtaking:
    """The next overtaking under one policy and tree of queues."""

    def __init__(self, policy: Policy, servers: ServerTable, queues: QueueTable) -> None:
        self._policy, self._servers = policy, servers
        root = np.array([path[-1] for path in queue_tree(queues).paths], dtype=np.int64)
        # A policy that says when its order changes needs no forecast; for one that is not steady none is possible.
        keeps_order = isinstance(policy, ChangesBySelf) or not (isinstance(policy, Steady) and policy.steady)
        self._root: IntArray | None = None if len(queues) < 2 or keeps_order else root
        self._looked = False  # whether keys depend on the time that remains

    def after_s(self, world: World, rows: Callable[[], IntArray] | None = None) -> float:
        """Return for how long at least no job passes another below the same root, seconds; +inf for ever.

        ``rows`` returns the jobs that are looked at; None for all active ones.
        """
        if self._root is not None and not self._looked:
            self._looked = True
            every = np.arange(len(world.columns))
            remaining_s = world.columns.look(every, world.now_s).remaining_s
            # Running makes no key weaker, so one that is the same at the end is the same all the time.
            if (self._keys(remaining_s, every, world) == self._keys(np.zeros(len(every)), every, world)).all():
                self._root = None
        if self._root is None:
            return math.inf
        looked = rows() if rows else world.columns.active
        jobs = world.columns.look(looked, world.now_s)
        keys = self._keys(jobs.remaining_s, looked, world)
        rate = np.where(jobs.running, world.columns.rate[looked], 0.0)
        soon = self._keys(np.maximum(0.0, jobs.remaining_s - rate), looked, world)
        falls = np.subtract(keys, soon, out=np.zeros(len(keys)), where=np.isfinite(keys))
        if not falls.any():
            return math.inf
        # A job that is still starting makes no progress for a while, so its key may fall more slowly.
        begins = world.columns.ready_s[looked] > world.now_s
        return _first_meeting_s(keys, np.where(begins, 0.0, falls), falls, self._root[jobs.queue])

    def _keys(self, remaining_s: FloatArray, rows: IntArray, world: World) -> FloatArray:
        """Return the keys of the policy with other times left."""
        jobs = world.columns.look(rows, world.now_s)
        jobs.__dict__["remaining_s"] = remaining_s  # a Glimpse caches its columns there
        glance = SimpleNamespace(now_s=world.now_s, jobs=jobs, servers=self._servers)
        return self._policy.priority(cast(Snapshot, glance))  # all that a key of a job alone can depend on


def _first_meeting_s(keys: FloatArray, least: FloatArray, most: FloatArray, group: IntArray) -> float:
    """Return when two neighbours of a group may meet first, seconds.

    Args:
        keys: (n,) present keys, smallest first in line.
        least, most: (n,) bounds of how much each falls in a second.
        group: (n,) group of each.
    """
    order = np.lexsort((keys, group))
    order = order[np.isfinite(keys[order])]
    ahead, behind = order[:-1], order[1:]
    same = group[ahead] == group[behind]
    ahead, behind = ahead[same], behind[same]
    gap, closing = keys[behind] - keys[ahead], most[behind] - least[ahead]
    parts = np.abs(most[behind] - most[ahead]) > _DUST  # of those level with each other
    meets = closing > _DUST
    times = np.divide(gap, closing, out=np.full(len(gap), np.inf), where=meets)
    times[(gap <= _DUST) & parts] = 0.0
    return max(_LOOK_AGAIN_S, float(times.min(initial=math.inf)))
