"""The order under a policy with leases, made without looking at jobs whose lease goes on.

Keys of waiting jobs are computed one by one: there are few. Running jobs are sorted by the round in which their leases
end, and within a round by an upper bound of their key, so that few keys are computed to find the weakest. Used by
``MovingOrderRounds``; tests/property/test_simulator_short_rounds.py holds the plans equal.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence

from scheduler.core.model.changes import Changes
from scheduler.core.model.tables import BoolArray
from scheduler.core.round.capabilities import HoldsLeases
from scheduler.policies.math import leases
from scheduler.simulator.incremental.walks.preemption_candidates import Key
from scheduler.simulator.state.columns import Columns, cells
from scheduler.simulator.state.world import World

# Tolerance for times of rounds, which are sums of floats.
_DUST_S = 1e-3
# Bounds are made for this many times the present number of active jobs, so that they seldom have to be made anew.
_ROOM = 1.25
# How far a bound may be off, as it is computed from other sums than the key.
_DUST = 1e-9


class LeaseOrder:
    """Waiting jobs, running jobs, and when leases end."""

    def __init__(self, columns: Columns, policy: HoldsLeases, *, cluster_gpus: int, possible: BoolArray) -> None:
        """Begin with no jobs; ``possible`` (n,) are the jobs that could run on empty servers."""
        self._columns, self._policy, self._cluster_gpus = columns, policy, cluster_gpus
        self._lease_s = policy.lease_s
        self._possible: list[bool] = possible.tolist()
        self._waiting: set[int] = set()
        self._unplaced: set[int] = set()  # jobs that sit, or got other cores, since the last round
        # By phase (when jobs took their seats, modulo the length of a lease) the jobs that sit, with upper bounds of
        # their keys, strongest first.
        self._line: dict[float, list[tuple[float, int]]] = {}
        self._phases: list[float] = []
        self._place: dict[int, tuple[float, float]] = {}
        self._most_active = 0
        self._num_gpus: list[int] = columns.num_gpus.tolist()
        self._run_s: list[float] = columns.run_s.tolist()
        self._arrival_s: list[float] = columns.arrival_s.tolist()
        self._first_start_s, self._held_at_s = cells(columns.first_start_s), cells(columns.held_at_s)
        self._joined_active_s = cells(columns.joined_active_s)
        self._work_s, self._next_s = cells(columns.work_s), cells(columns.next_s)

    def follow(self, world: World) -> None:
        """Take in arrivals and departures, and place the jobs that took seats in the last round."""
        for row in world.released:
            self._unplaced.discard(row)
            self._leave(row)
        self._waiting.update([row for row in world.arrived if self._possible[row]])
        # At most so many jobs were active at once since the last round.
        active = self._columns.num_active + len(world.released)
        if active > self._most_active:
            self._most_active = int(_ROOM * active) + 1
            self._unplaced.update(self._place)
        for row in self._unplaced:
            self._leave(row)
        self._enter(list(self._unplaced), world.now_s)
        self._unplaced.clear()

    def seated(self, changes: Changes) -> None:
        """Take in what a round changed."""
        for row in changes.stopped:
            self._leave(row)
            self._waiting.add(row)
        self._waiting.difference_update(changes.started)
        self._unplaced.update(changes.started, changes.amended)

    def restore(self, seated: Sequence[int], waiting: Sequence[int]) -> None:
        """Go on from a state."""
        self._unplaced = set(seated)
        self._waiting = {row for row in waiting if self._possible[row]}

    def waiting(self, world: World) -> list[Key]:
        """Return waiting jobs that could run, strongest first: ``_keys`` in one loop, as none of them runs."""
        columns, now_s, key, cluster_gpus = self._columns, world.now_s, self._policy.key, self._cluster_gpus
        arrivals_s, first_start_s, work_s = self._arrival_s, self._first_start_s, self._work_s
        num_gpus, run_s, joined_active_s = self._num_gpus, self._run_s, self._joined_active_s
        active_s = columns.active_s + columns.num_active * (now_s - columns.counted_s)
        keys = []
        for row in self._waiting:
            arrival_s, left_s = arrivals_s[row], work_s[row]
            lived_s = now_s - arrival_s
            sharers = (active_s - joined_active_s[row]) / lived_s if lived_s > 0 else float(columns.num_active)
            shared_s = lived_s + left_s if left_s > 0 else lived_s
            keys.append(
                (
                    key(shared_s, run_s[row], num_gpus[row], sharers if sharers > 1.0 else 1.0, cluster_gpus),
                    first_start_s[row],
                    arrival_s,
                    row,
                )
            )
        keys.sort()
        return keys

    def weakest(self, world: World) -> "EndingLeases":
        """Return the jobs whose leases end in this round."""
        return EndingLeases(self, world.now_s, world.round_s)

    def drifting(self) -> list[int]:
        """Return one waiting job, if there is one: the keys of all waiting jobs change with time."""
        return [next(iter(self._waiting))] if self._waiting else []

    def _leave(self, row: int) -> None:
        place = self._place.pop(row, None)
        if place:
            phase, bound = place
            line = self._line[phase]
            del line[bisect_left(line, (bound, row))]
            if not line:
                del self._line[phase]
                del self._phases[bisect_left(self._phases, phase)]

    def _enter(self, rows: list[int], now_s: float) -> None:
        columns, key, cluster_gpus = self._columns, self._policy.key, self._cluster_gpus
        left = columns.remaining_s(rows, now_s)
        for row, left_s, sharers in zip(rows, left, self._sharers(rows, now_s), strict=True):
            # Faster than speed 1 it ends sooner than it seems now; sooner than that it does not end.
            ends_s = min(now_s + left_s, self._next_s[row])
            bound = key(
                ends_s - self._arrival_s[row],
                self._run_s[row],
                self._num_gpus[row],
                max(sharers, self._most_active),
                cluster_gpus,
            )
            phase = self._held_at_s[row] % self._lease_s
            self._place[row] = phase, bound
            line = self._line.get(phase)
            if line is None:
                line = self._line[phase] = []
                insort(self._phases, phase)
            insort(line, (bound, row))

    def _sharers(self, rows: Sequence[int], now_s: float) -> list[float]:
        """Return how many jobs were active on average since each arrived, as in a ``Glimpse``."""
        columns = self._columns
        active_s = columns.active_s + columns.num_active * (now_s - columns.counted_s)
        at_once = float(max(1, columns.num_active))
        sharers = []
        for row in rows:
            lived_s = now_s - self._arrival_s[row]
            mean = (active_s - self._joined_active_s[row]) / lived_s if lived_s > 0 else at_once
            sharers.append(mean if mean > 1.0 else 1.0)
        return sharers

    def _keys(self, rows: list[int], now_s: float) -> list[Key]:
        """Return the present keys of jobs outside a lease."""
        arrivals_s, first_start_s, key = self._arrival_s, self._first_start_s, self._policy.key
        num_gpus, run_s, cluster_gpus = self._num_gpus, self._run_s, self._cluster_gpus
        left = self._columns.remaining_s(rows, now_s)
        return [
            (
                key(now_s - (arrival_s := arrivals_s[row]) + left_s, run_s[row], num_gpus[row], sharers, cluster_gpus),
                first_start_s[row],
                arrival_s,
                row,
            )
            for row, left_s, sharers in zip(rows, left, self._sharers(rows, now_s), strict=True)
        ]

    def ending(self, key: float, now_s: float, round_s: float) -> list[Key]:
        """Return jobs whose leases end in this round and that may be as weak as ``key``, in no order."""
        held_at_s, lease_s = self._held_at_s, self._lease_s
        rows: list[int] = []
        for phase in self._ending_phases(now_s, round_s):
            line = self._line[phase]
            rows += [row for _, row in line[bisect_left(line, (key - _DUST * (1.0 - key), -1)) :]]
        return self._keys([row for row in rows if leases.ends(now_s - held_at_s[row], lease_s, round_s)], now_s)

    def _ending_phases(self, now_s: float, window_s: float) -> list[float]:
        """Return all phases at which leases ended in the ``window_s`` seconds before now, and maybe others."""
        phases, lease_s = self._phases, self._lease_s
        if window_s + 2 * _DUST_S >= lease_s:
            return phases
        last = now_s % lease_s + _DUST_S
        first = last - window_s - 2 * _DUST_S
        ending = phases[bisect_left(phases, first) : bisect_left(phases, last)]
        if first < 0:
            ending += phases[bisect_left(phases, first + lease_s) :]
        elif last > lease_s:
            ending += phases[: bisect_left(phases, last - lease_s)]
        return ending


class EndingLeases:
    """Jobs whose leases end in one round; a ``WeakestFirst``."""

    __slots__ = ("_asked", "_now_s", "_order", "_round_s")

    def __init__(self, order: LeaseOrder, now_s: float, round_s: float) -> None:
        self._order, self._now_s, self._round_s = order, now_s, round_s
        self._asked: Key | None = None  # all weaker ones were returned

    def more(self, key: Key) -> list[Key]:
        """Return further jobs that are weaker than ``key``, weakest first."""
        asked = self._asked
        if asked is not None and asked <= key:
            return []
        self._asked = key
        keys = self._order.ending(key[0], self._now_s, self._round_s)
        weaker = [place for place in keys if place > key and (asked is None or place < asked)]
        weaker.sort(reverse=True)
        return weaker
