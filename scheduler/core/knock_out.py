"""Spare GPUs one by one, each to the winner of a knock-out between two jobs at a time (AFS).

The first job of the pool meets the second, the winner the third, and so on; the last winner gets the GPU. Which of two
wins depends on how much faster one more GPU makes either, and on which of them is expected to end first. The relation
is not transitive, so the order of the pool is part of the rule, and the result is that of the plain loop.
"""

from bisect import bisect_right
from dataclasses import dataclass

import numpy as np

from scheduler.core.curves import Curves, SpeedTable
from scheduler.core.tables import FloatArray, IntArray

# More grades tell more jobs apart at once, but a job that grows passes more of them.
_GRADES = 24
# With more curves than these no gain keeps their steps apart.
_MOST_CURVES = 64


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
    if not spare:
        return result
    curve = curves.row[pool]
    room = np.minimum(np.maximum(most[pool], gpus[pool]), curves.table.stop[curve, gpus[pool]])
    if int((room - gpus[pool]).sum()) <= spare:  # enough for all
        result[pool] = room
        return result
    growing = gpus[pool] < room
    rows, curve = pool[growing], curve[growing]
    sure, limit = _bounds(curves.table, curve, gpus[rows], room[growing], spare, ties=rule.ties_to_later)
    spare -= int((sure - gpus[rows]).sum())
    result[rows] = sure
    if spare:
        meets = sure < limit
        rows, curve, sure, limit = rows[meets], curve[meets], sure[meets], limit[meets]
        result[rows] += _Pool(curves.table, rule, lengths[rows], curve, sure, limit).give(spare)
    return result


def _bounds(
    table: SpeedTable, curve: IntArray, gpus: IntArray, room: IntArray, spare: int, *, ties: bool
) -> tuple[IntArray, IntArray]:
    """Return the GPUs that each job gets whoever is the shorter, and the most that it may get.

    A step of a job, from some count to one more, beats another step outright where its gain is above the other's rise;
    with ``ties`` also where equal. Where all steps above some gain do so to all the others, none of the others is taken
    before they are, and who waits with one of the others decides nothing until then.
    """
    used, row = np.unique(curve, return_inverse=True)
    if len(used) > _MOST_CURVES:
        return gpus, room
    # The least gain up to each count, since who takes a step has taken those before it.
    floor = np.minimum.accumulate(table.gain[used], axis=1)
    stop = np.zeros(len(used), dtype=np.int64)
    np.maximum.at(stop, row, room)
    counts = np.arange(floor.shape[1])
    steps = (counts >= gpus.min()) & (counts < stop[:, None])
    floors, rises = floor[steps], table.rise[used][steps]
    falling = np.argsort(-floors)
    floors, rises = floors[falling], rises[falling]
    after = np.maximum.accumulate(rises[::-1])[::-1]  # the highest rise from each step on
    apart = floors[:-1] >= after[1:] if ties else floors[:-1] > after[1:]
    gaps: list[float] = floors[:-1][apart].tolist()

    def reached(gap: float) -> IntArray:
        counts: IntArray = np.clip((floor >= gap).sum(axis=1)[row], gpus, room)
        return counts

    held = int(gpus.sum())
    taken = bisect_right(gaps, held + spare, key=lambda gap: int(reached(gap).sum()))
    return reached(gaps[taken - 1]) if taken else gpus, reached(gaps[taken]) if taken < len(gaps) else room


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
        job = np.repeat(np.arange(len(states)), states)
        count = gpus[::-1][job] + np.arange(len(job)) - (end - states)[job]
        used, row = np.unique(curve[::-1], return_inverse=True)
        width = table.gain.shape[1]
        code = row[job] * width + count
        counts = np.bincount(code)
        kinds = np.flatnonzero(counts)
        kind, counts = (np.cumsum(counts > 0) - 1)[code], counts[kinds]
        curves, gains = used[kinds // width], kinds % width
        gain, rise = table.gain[curves, gains], table.rise[curves, gains]
        length = lengths[::-1][job]
        if rule.shrinking:
            length = length / table.speed[used[row[job]], count]
        lengths, each, alike = np.unique(-length, return_inverse=True, return_counts=True)
        ties = rule.ties_to_later
        self._outright = _Scale.of(gain, rise, counts, kind, ties=ties)
        self._nearly = _Scale.of(rise, gain, counts, kind, ties=not ties)
        self._shorter = _Scale.of(lengths, lengths, alike, each, ties=False)

    def give(self, spare: int) -> IntArray:
        """Give the spare GPUs one by one, at least 1 and fewer than there is room for; return how many each job got.

        Written out in one loop: it turns millions of times in a replay, and calls would take half of the time.
        """
        at, end, bits, before = self._at, self._end, self._bits, np.array(self._at)
        scales = self._outright, self._nearly, self._shorter
        for scale in scales:
            scale.seat(at)
        outright, nearly, shorter = (scale.above for scale in scales)
        outright_grade, nearly_grade, shorter_grade = (scale.marked for scale in scales)
        outright_mark, nearly_mark, shorter_mark = (scale.mark for scale in scales)
        outright_reach, nearly_reach, shorter_reach = (scale.reach for scale in scales)
        grades = [(scale.reached, scale.above) for scale in scales]
        playing = (1 << len(at)) - 1
        below = [bit - 1 for bit in bits]
        # Everyone who was champion before, the last one last: with those after the next one who may beat him, and with
        # what they have to come up to.
        champions: list[tuple[int, int, int, int, int]] = []
        champion, is_known, is_alone = len(at) - 1, False, False
        while True:
            if not is_known:
                state = at[champion]
                later = nearly[nearly_grade[state]] & shorter[shorter_grade[state]] | outright[outright_grade[state]]
                later &= playing & below[champion]
                mark, rise, length = outright_mark[state], nearly_mark[state], shorter_mark[state]
            while later:
                job = later.bit_length() - 1  # the highest bit is the first to meet
                later ^= bits[job]
                state = at[job]
                if outright_reach[state] >= mark or (shorter_reach[state] >= length and nearly_reach[state] >= rise):
                    champions.append((champion, later, mark, rise, length))
                    champion, is_alone = job, True
                    later = (
                        nearly[nearly_grade[state]] & shorter[shorter_grade[state]] | outright[outright_grade[state]]
                    )
                    later &= playing & below[job]
                    mark, rise, length = outright_mark[state], nearly_mark[state], shorter_mark[state]
            spare -= 1
            at[champion] = state = at[champion] + 1
            if not spare:
                break
            is_known = False
            if state == end[champion]:
                playing ^= bits[champion]
                if not champions:
                    champion = playing.bit_length() - 1
                    continue
                champion, later, mark, rise, length = champions.pop()
            else:
                bit = bits[champion]
                for reached, above in grades:
                    old, new = reached[state - 1], reached[state]
                    while old > new:
                        above[old] ^= bit
                        old -= 1
                    while old < new:
                        old += 1
                        above[old] ^= bit
                if not champions:
                    continue
                # Up to the place of the winner nobody changed: it meets the champion before it once more.
                before_it, known, mark, rise, length = champions[-1]
                if outright_reach[state] >= mark or (shorter_reach[state] >= length and nearly_reach[state] >= rise):
                    continue
                champion, later = before_it, known
                del champions[-1]
            # Nobody else changed either where it won alone: who may beat the champion before it is still known.
            is_known, is_alone = is_alone, False
        grown: IntArray = (np.array(at) - before)[::-1]
        return grown
