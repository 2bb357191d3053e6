"""Spare GPUs one by one, each to the winner of a knock-out between two jobs at a time (AFS).

The first job of the pool meets the second, the winner the third, and so on; the last winner gets the GPU. Which of two
wins depends on how much faster one more GPU makes either, and on which of them is expected to end first. The relation
is not transitive, so the order of the pool is part of the rule, and the result is that of the plain loop.
"""

import math
from collections.abc import MutableSequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from scheduler.core.curves import Curves, SpeedTable
from scheduler.core.tables import BoolArray, FloatArray, IntArray

# Winners that are looked at one by one; with more it is quicker to look at everybody at once.
_FEW = 6


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


def _cells(column: FloatArray) -> MutableSequence[float]:
    """Return the column for access to one number at a time: several times as fast, on the same memory."""
    return cast(MutableSequence[float], memoryview(column.data))  # it reads and writes plain Python numbers


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
        self._length_at, self._gain_at, self._rise_at = _cells(self._length), _cells(self._gain), _cells(self._rise)
        self._beats, self._shorter = np.empty(size, dtype=np.bool_), np.empty(size, dtype=np.bool_)

    def give(self, spare: int) -> IntArray:
        """Give the spare GPUs one by one and return what everybody has."""
        champions: list[_Champion] = []  # everyone who was champion, the last one last
        winners: list[int] = []
        left = len(self._gpus)
        while spare and left:
            if not champions:
                champions.append(_Champion(0, self._beaten_by(0), len(winners)))
            while (later := self._next_to_beat(champions[-1], winners)) >= 0:
                champions.append(_Champion(later, self._beaten_by(later), len(winners)))
            # The others stay who they are: up to the place of the winner nobody changes.
            winner = champions.pop().place
            winners.append(winner)
            left -= self._grow(winner)
            spare -= 1
            if 2 * left < len(self._gpus):
                self._forget_the_out()
                champions.clear()
                winners.clear()
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

    def _beaten_by(self, place: int) -> bytearray:
        """Return for every job after a place whether it beats the one there."""
        gain, rise, length = self._gain_at[place], self._rise_at[place], self._length_at[place]
        outright, beats = (np.greater_equal, np.greater) if self._rule.ties_to_later else (np.greater, np.greater_equal)
        start = place + 1
        wins, shorter = self._beats[start:], self._shorter[start:]
        np.less(self._length[start:], length, out=shorter)
        beats(self._rise[start:], gain, out=wins)
        wins &= shorter
        wins |= outright(self._gain[start:], rise, out=shorter)
        return bytearray(wins.tobytes())

    def _next_to_beat(self, champion: "_Champion", winners: list[int]) -> int:
        """Return the place of the first job that beats the champion, or -1. Only winners have changed meanwhile."""
        start = champion.place + 1
        if len(winners) - champion.seen > _FEW:
            champion.beaten_by = self._beaten_by(champion.place)
        else:
            for row in winners[champion.seen :]:
                champion.beaten_by[row - start] = self._beats_champion(row, champion.place)
        champion.seen = len(winners)
        first = champion.beaten_by.find(1)
        return start + first if first >= 0 else -1

    def _beats_champion(self, row: int, champion: int) -> bool:
        """Return whether a later job beats the champion."""
        gain, rise = self._gain_at[row], self._rise_at[row]
        champion_gain, champion_rise = self._gain_at[champion], self._rise_at[champion]
        shorter = self._length_at[row] < self._length_at[champion]
        if self._rule.ties_to_later:
            return gain >= champion_rise or (shorter and rise > champion_gain)
        return gain > champion_rise or (shorter and rise >= champion_gain)

    def _grow(self, row: int) -> bool:
        """Give one GPU and return whether the job is out with it."""
        self._gpus[row] += 1
        gpus, curve = self._gpus[row], self._curve.item(row)
        if gpus == self._room[row]:
            self._length_at[row], self._gain_at[row], self._rise_at[row] = math.inf, -2.0, -1.0
            return True
        self._gain_at[row], self._rise_at[row] = self._gains.item(curve, gpus), self._rises.item(curve, gpus)
        if self._rule.shrinking:
            self._length_at[row] = self._lengths.item(row) / self._speed.item(curve, gpus)
        return False


class _Champion:
    """A job that was champion: its place, which of the jobs after it beat it, and how many winners it has seen."""

    __slots__ = ("beaten_by", "place", "seen")

    def __init__(self, place: int, beaten_by: bytearray, seen: int) -> None:
        self.place, self.beaten_by, self.seen = place, beaten_by, seen
