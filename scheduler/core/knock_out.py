"""Spare GPUs one by one, each to the winner of a knock-out between two jobs at a time (AFS).

The first job of the pool meets the second, the winner the third, and so on; the last winner gets the GPU. Which of two
wins depends on how much faster one more GPU makes either, and on which of them is expected to end first. The relation
is not transitive, so the order of the pool is part of the rule, and the result is that of the plain loop.
"""

from dataclasses import dataclass

import numpy as np

from scheduler.core.curves import Curves, SpeedTable
from scheduler.core.tables import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """How the later job of the pool beats the champion.

    With ``p`` the speed now and ``p'`` with one more GPU, ``gain`` is ``(p' - p) / p'`` and ``rise`` ``(p' - p) / p``.

    Attributes:
        shrinking: Whether the length of a job falls as it gets faster; else lengths are ranks that stay.
        ties_to_later: Whether the later job also wins where its gain equals the rise of a shorter champion; then a
            shorter job needs more than a tie to win. Published so for AFS-P and the other way round for AFS-L.
    """

    shrinking: bool
    ties_to_later: bool


def knock_out(
    curves: Curves, rule: Rule, *, lengths: FloatArray, pool: IntArray, gpus: IntArray, most: IntArray, spare: int
) -> IntArray:
    """Return (n,) GPUs of each job after the spare ones were given out; nobody gets one that makes it no faster.

    Args:
        curves: Throughput of the jobs.
        rule: Who wins.
        lengths: (n,) remaining time on one GPU, or any other key by which the shorter of two jobs is told.
        pool: Rows of the jobs that take part, in the order in which they meet.
        gpus: (n,) GPUs of each job before, at least 1 in the pool.
        most: (n,) most GPUs of each job.
        spare: GPUs to give out.
    """
    result = gpus.copy()
    curve = curves.row[pool]
    room = np.minimum(np.maximum(most[pool], gpus[pool]), curves.table.stop[curve, gpus[pool]])
    if int((room - gpus[pool]).sum()) <= spare:  # enough for all
        result[pool] = room
        return result
    result[pool] = _Pool(curves.table, rule, lengths[pool], curve, gpus[pool], room).give(spare)
    return result


class _Pool:
    """The jobs in the order in which they meet. Who is out has a length, gain and rise with which it always loses."""

    def __init__(
        self,
        table: SpeedTable,
        rule: Rule,
        lengths: FloatArray,
        curve: IntArray,
        gpus: IntArray,
        room: IntArray,
    ) -> None:
        self._speed, self._gains, self._rises = table.speed, table.gain, table.rise
        self._rule = rule
        self._result = gpus.copy()
        self._seat(gpus < room, lengths, curve, gpus, room)

    def _seat(self, rows: BoolArray, lengths: FloatArray, curve: IntArray, gpus: IntArray, room: IntArray) -> None:
        """Begin with some rows; everything below is by place among them."""
        self._place = np.flatnonzero(rows)
        self._lengths, self._curve = lengths[rows], curve[rows]
        self._gpus, self._room = gpus[rows].tolist(), room[rows].tolist()
        speed = self._speed[self._curve, gpus[rows]]
        self._length = self._lengths / speed if self._rule.shrinking else self._lengths.copy()
        self._gain, self._rise = self._gains[self._curve, gpus[rows]], self._rises[self._curve, gpus[rows]]
        self._make_room()

    def _make_room(self) -> None:
        size = len(self._gpus)
        self._beats, self._shorter = np.empty(size, dtype=np.bool_), np.empty(size, dtype=np.bool_)

    def give(self, spare: int) -> IntArray:
        """Give the spare GPUs one by one and return what everybody has."""
        champions: list[int] = []  # everyone who was champion, the last one last
        left = len(self._gpus)
        start = 0
        while spare and left:
            champion = champions[-1] if champions else 0
            if not champions:
                champions.append(0)
                start = 1
            while (later := self._first_to_beat(champion, start)) >= 0:
                champions.append(later)
                champion, start = later, later + 1
            left -= self._grow(champion)
            spare -= 1
            if 2 * left < len(self._gpus):
                self._forget_the_out()
                champions.clear()
                continue
            # Up to the place of the winner nobody has changed, so nobody there wins who did not win before.
            champions.pop()
            start = champion
        self._result[self._place] = self._gpus
        return self._result

    def _forget_the_out(self) -> None:
        """Go on among those who can still win: half as many to look through."""
        self._result[self._place] = self._gpus
        still = self._gain > 0
        self._place, self._lengths, self._curve = self._place[still], self._lengths[still], self._curve[still]
        self._length, self._gain, self._rise = self._length[still], self._gain[still], self._rise[still]
        rows = np.flatnonzero(still).tolist()
        self._gpus, self._room = [self._gpus[row] for row in rows], [self._room[row] for row in rows]
        self._make_room()

    def _first_to_beat(self, champion: int, start: int) -> int:
        """Return the place of the first job from ``start`` on that beats the champion, or -1."""
        if start >= len(self._gpus):
            return -1
        gain, rise, length = self._gain.item(champion), self._rise.item(champion), self._length.item(champion)
        outright, beats = (np.greater_equal, np.greater) if self._rule.ties_to_later else (np.greater, np.greater_equal)
        wins, shorter = self._beats[start:], self._shorter[start:]
        np.less(self._length[start:], length, out=shorter)
        beats(self._rise[start:], gain, out=wins)
        wins &= shorter
        wins |= outright(self._gain[start:], rise, out=shorter)
        first = int(wins.argmax())
        return start + first if wins[first] else -1

    def _grow(self, row: int) -> bool:
        """Give one GPU and return whether the job is out with it."""
        self._gpus[row] += 1
        gpus, curve = self._gpus[row], self._curve[row]
        if gpus == self._room[row]:
            self._length[row], self._gain[row], self._rise[row] = np.inf, -2.0, -1.0
            return True
        self._gain[row], self._rise[row] = self._gains[curve, gpus], self._rises[curve, gpus]
        if self._rule.shrinking:
            self._length[row] = self._lengths[row] / self._speed[curve, gpus]
        return False
