"""Spare GPUs one by one, each to the winner of a knock-out between two jobs at a time (AFS).

The first job of the pool meets the second, the winner the third, and so on; the last winner gets the GPU. Which of two
wins depends on how much faster one more GPU makes either, and on which of them is expected to end first. The relation
is not transitive, so the order of the pool is part of the rule, and the result is that of the plain loop.
"""

from dataclasses import dataclass

import numpy as np

from scheduler.core.curves import Curves, SpeedTable
from scheduler.core.tables import FloatArray, IntArray

# More grades tell more jobs apart at once, but a job that grows passes more of them.
_GRADES = 48


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
    growing = gpus[pool] < room
    rows = pool[growing]
    result[rows] += _Pool(curves.table, rule, lengths[rows], curve[growing], gpus[rows], room[growing]).give(spare)
    return result


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """One respect in which a job may come up to the champion, on a scale of whole numbers.

    A job comes up to the champion where ``reach`` of its state is at least ``mark`` of the champion's. The scale has
    ``_GRADES`` grades, and the jobs that reach one are the bits of one number, so that all are compared at once. A
    grade holds several marks; whoever reaches the grade of a mark need not reach the mark.

    Attributes:
        reach: How far the jobs in each state reach.
        mark: What must be reached to come up to a champion in that state.
        reached: Grade of ``reach``.
        marked: Grade of ``mark``.
        above: For each grade the jobs that reach it; bit i is job i.
    """

    reach: list[int]
    mark: list[int]
    reached: list[int]
    marked: list[int]
    above: list[int]

    @staticmethod
    def of(values: FloatArray, marks: FloatArray, counts: IntArray, at: IntArray, *, ties: bool) -> "_Scale":
        """Return the scale on which values come up to marks: where they are greater, with ``ties`` also where equal.

        Args:
            values: (k,) value of each kind of state.
            marks: (k,) what another's value is compared with.
            counts: (k,) how many states are of that kind, at least 1: grades hold about as many states each.
            at: (s,) kind of each state.
            ties: Whether equal is enough.
        """
        order = np.argsort(marks)
        ranks = np.concatenate(([0], np.cumsum(counts[order])))
        reach = ranks[np.searchsorted(marks[order], values, side="right" if ties else "left")][at]
        mark = ranks[np.searchsorted(marks[order], marks, side="right")][at]
        width = 1 + len(at) // _GRADES
        return _Scale(
            reach=reach.tolist(),
            mark=mark.tolist(),
            reached=(reach // width).tolist(),
            marked=(mark // width).tolist(),
            above=[],
        )

    def seat(self, states: list[int]) -> None:
        """Note for each grade the jobs that reach it when they are in these states."""
        grades = np.array([self.reached[state] for state in states])
        bits = np.packbits(grades >= np.arange(_GRADES + 2)[:, None], axis=1, bitorder="little")
        self.above.extend(int.from_bytes(row, "little") for row in bits)


class _Pool:
    """The jobs that can grow, as bits: the first to meet is the highest bit, so that who meets next is a bit length.

    The states of a job are the counts of GPUs at which it may get one more; those of all jobs lie in one list.
    """

    def __init__(
        self, table: SpeedTable, rule: Rule, lengths: FloatArray, curve: IntArray, gpus: IntArray, room: IntArray
    ) -> None:
        states = (room - gpus)[::-1]
        end = np.cumsum(states)
        self._at, self._end = (end - states).tolist(), end.tolist()
        self._bits = [1 << place for place in range(len(states))]
        self._playing = 0
        job = np.repeat(np.arange(len(states)), states)
        count = gpus[::-1][job] + np.arange(len(job)) - (end - states)[job]
        used, row = np.unique(curve[::-1], return_inverse=True)
        width = table.gain.shape[1]
        kinds, kind, counts = np.unique(row[job] * width + count, return_inverse=True, return_counts=True)
        curves, gains = used[kinds // width], kinds % width
        gain, rise = table.gain[curves, gains], table.rise[curves, gains]
        length = lengths[::-1][job]
        if rule.shrinking:
            length = length / table.speed[used[row[job]], count]
        each = np.arange(len(job))
        ties = rule.ties_to_later
        self._outright = _Scale.of(gain, rise, counts, kind, ties=ties)
        self._nearly = _Scale.of(rise, gain, counts, kind, ties=not ties)
        self._shorter = _Scale.of(-length, -length, np.ones_like(each), each, ties=False)

    def give(self, spare: int) -> IntArray:
        """Give the spare GPUs one by one, fewer than there is room for, and return how many each job got."""
        at, before = self._at, np.array(self._at)
        for scale in (self._outright, self._nearly, self._shorter):
            scale.seat(at)
        self._playing = (1 << len(at)) - 1
        champions: list[int] = []  # everyone who was champion, the last one last
        while spare:
            later = self._beating(champions[-1]) if champions else self._playing
            if later:
                champions.append(later.bit_length() - 1)
            else:
                # The others stay who they are: up to the place of the winner nobody changes.
                self._grow(champions.pop())
                spare -= 1
        grown: IntArray = (np.array(at) - before)[::-1]
        return grown

    def _beating(self, champion: int) -> int:
        """Return jobs of which the highest bit is the first to beat the champion; 0 for nobody."""
        state, bits = self._at[champion], self._bits
        outright, nearly, shorter = self._outright, self._nearly, self._shorter
        later: int = nearly.above[nearly.marked[state]] & shorter.above[shorter.marked[state]]
        later |= outright.above[outright.marked[state]]
        later &= self._playing & (bits[champion] - 1)
        while later and not self._beats(self._at[later.bit_length() - 1], state):
            later ^= bits[later.bit_length() - 1]
        return later

    def _grow(self, job: int) -> None:
        bit = self._bits[job]
        self._at[job] = state = self._at[job] + 1
        if state == self._end[job]:
            self._playing ^= bit
            return
        for scale in (self._outright, self._nearly, self._shorter):
            old, new = scale.reached[state - 1], scale.reached[state]
            if old != new:
                above = scale.above
                for grade in range(new + 1, old + 1) if new < old else range(old + 1, new + 1):
                    above[grade] ^= bit

    def _beats(self, state: int, champion: int) -> bool:
        """Return whether a job in a state beats a champion in another."""
        if self._outright.reach[state] >= self._outright.mark[champion]:
            return True
        return (
            self._shorter.reach[state] >= self._shorter.mark[champion]
            and self._nearly.reach[state] >= self._nearly.mark[champion]
        )
