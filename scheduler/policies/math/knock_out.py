"""Give out spare GPUs one by one, each to the winner of a knock-out between pairs of jobs (AFS).

The first job of the pool meets the second, the winner the third, and so on; the last winner gets the GPU. Which of two
wins depends on how much faster one more GPU makes either, and on which of them is expected to end first. The relation
is not transitive, so the order of the pool is part of the rule, and the result is that of the plain loop.
"""

from bisect import bisect_left
from dataclasses import dataclass
from functools import lru_cache
from itertools import repeat

import numpy as np

from scheduler.core.model.numbering import numbered
from scheduler.core.model.tables import FloatArray, IntArray
from scheduler.core.performance.curves import Curves, SpeedTable

# More grades tell more jobs apart at once, but a job that grows passes more of them.
_GRADES = 24
# Lists of numbers by place are made for a multiple of these.
_PLACES = 1024
# With more curves than these no gain keeps their steps apart.
_MOST_CURVES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class KnockOutRule:
    """When the later job of the pool beats the champion.

    With ``p`` the speed now and ``p'`` with one more GPU, ``gain`` is ``(p' - p) / p'`` and ``rise`` ``(p' - p) / p``.

    Attributes:
        shrinking: Whether the length of a job falls as it gets faster; else lengths are ranks that stay.
        ties_to_later: Whether the later job also wins where its gain equals the rise of a shorter champion; then a
            shorter job needs more than a tie to win. Published so for AFS-P and the other way round for AFS-L.
    """

    shrinking: bool
    ties_to_later: bool


def knock_out(
    curves: Curves,
    rule: KnockOutRule,
    *,
    lengths: FloatArray,
    pool: IntArray,
    gpus: IntArray,
    most: IntArray,
    spare: int,
) -> IntArray:
    """Return (n,) GPUs of each job after the spare ones were given out; no job gets one that makes it no faster.

    Args:
        curves: Throughput of the jobs.
        rule: Which of two jobs wins.
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
    """Return the GPUs that each job gets whichever of two is the shorter, and the most that it may get.

    A step of a job, from some count to one more, beats another step outright where its gain is above the other's rise;
    with ``ties`` also where equal. Where all steps above some gain do so to all the others, none of the others is taken
    before they are, and which jobs compete for the others decides nothing until then.
    """
    used, row = numbered(curve)
    if len(used) > _MOST_CURVES:
        return gpus, room
    # The least gain up to each count, since a job takes its steps in order.
    floor = np.minimum.accumulate(table.gain[used], axis=1)
    num_jobs = _coming_by(row, gpus, room, len(used), table)[:, :-1]
    steps = num_jobs > 0
    floors, rises, num_taken = floor[steps], table.rise[used][steps], num_jobs[steps]
    falling = np.argsort(-floors)
    floors, rises, num_taken = floors[falling], rises[falling], np.cumsum(num_taken[falling])
    after = np.maximum.accumulate(rises[::-1])[::-1]  # the highest rise from each step on
    apart = floors[:-1] >= after[1:] if ties else floors[:-1] > after[1:]
    gaps = floors[:-1][apart]
    taken = int(np.searchsorted(num_taken[:-1][apart], spare, side="right"))

    def reached(gap: float) -> IntArray:
        counts: IntArray = np.clip((floor >= gap).sum(axis=1)[row], gpus, room)
        return counts

    return reached(gaps[taken - 1]) if taken else gpus, reached(gaps[taken]) if taken < len(gaps) else room


def _coming_by(row: IntArray, gpus: IntArray, room: IntArray, num_curves: int, table: SpeedTable) -> IntArray:
    """Return (c, K + 2) how many jobs come by each count of GPUs before they have as many as they may get."""
    shape = num_curves, table.speed.shape[1]
    begin, end = (np.bincount(row * shape[1] + count, minlength=shape[0] * shape[1]) for count in (gpus, room))
    return np.cumsum(begin - end).reshape(shape)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kinds:
    """What one more GPU does to the jobs: the curves and counts they come by, ranked by gain.

    A job comes up to a champion where its rank is at least one of two marks of the champion's kind.

    Attributes:
        of_job: (n,) kind of each job with the GPUs it has.
        following: Kind after one more GPU.
        speed: Speed before it.
        grade: Grade of the rank.
        marks: What wins outright, what wins if the job is the shorter one, and the grades of both.
    """

    of_job: IntArray
    following: list[int]
    speed: list[float]
    grade: IntArray
    marks: list[tuple[int, int, int, int]]

    @staticmethod
    def of(table: SpeedTable, curve: IntArray, gpus: IntArray, room: IntArray, *, ties: bool) -> "_Kinds":
        """Return the kinds of jobs that have some GPUs and may grow to others."""
        used, row = numbered(curve)
        num_jobs, width = _coming_by(row, gpus, room, len(used), table).ravel(), table.speed.shape[1]
        codes = np.flatnonzero(num_jobs)
        curves, counts = used[codes // width], codes % width
        by = np.lexsort((table.rise[curves, counts], table.gain[curves, counts]))
        codes, curves, counts = codes[by], curves[by], counts[by]
        # Both grow together, so one rank tells whether a job comes up to another's gain or to its rise.
        gain, rise = table.gain[curves, counts], table.rise[curves, counts]
        outright = np.searchsorted(gain, rise, side="left" if ties else "right")
        nearly = np.minimum(np.searchsorted(rise, gain, side="right" if ties else "left"), outright)
        weights, size = num_jobs[codes], len(codes) + 1
        compared = np.cumsum(np.bincount(outright, weights, size) + np.bincount(nearly, weights, size))
        grade = (compared * (_GRADES / compared[-1])).astype(np.int64)
        columns = outright, nearly, grade[outright], grade[nearly]
        rank = np.zeros(len(num_jobs) + 1, dtype=np.int64)
        rank[codes] = np.arange(len(codes))
        return _Kinds(
            of_job=rank[row * width + gpus],
            following=rank[codes + 1].tolist(),
            speed=table.speed[curves, counts].tolist(),
            grade=grade,
            marks=[*zip(*(column.tolist() for column in columns), strict=True)],
        )


class _Pool:
    """The jobs that can grow, as bits: the first to meet is the highest bit, so that the next to meet is a bit length.

    Jobs are compared in two respects, by what one more GPU does and by how short they are. Each is cut into ``_GRADES``
    grades, and the jobs that reach a grade are the bits of one number, so that all are compared at once; within a grade
    they are compared one by one.
    """

    def __init__(
        self,
        table: SpeedTable,
        rule: KnockOutRule,
        lengths: FloatArray,
        curve: IntArray,
        gpus: IntArray,
        room: IntArray,
    ) -> None:
        curve, gpus, room, short = curve[::-1], gpus[::-1], room[::-1], -lengths[::-1]
        self._kinds = kinds = _Kinds.of(table, curve, gpus, room, ties=rule.ties_to_later)
        self._left, self._kind, self._keen = room - gpus, kinds.of_job.tolist(), _reaching(kinds.grade[kinds.of_job])
        # Minus the length on one GPU, where jobs get shorter as they grow; grades are cut from a sample of both ends.
        self._at_one: list[float] = short.tolist() if rule.shrinking else []
        at_end = short
        if rule.shrinking:
            short, at_end = short / table.speed[curve, gpus], short / table.speed[curve, room - 1]
        sample = np.sort(np.concatenate((short, at_end))[:: 1 + len(short) // 128])
        bounds = sample[np.arange(_GRADES) * len(sample) // _GRADES]
        grade = np.searchsorted(bounds, short)
        self._shortness, self._short_grade, self._short = short.tolist(), grade.tolist(), _reaching(grade)
        self._bounds: list[float] = bounds.tolist()

    def give(self, spare: int) -> IntArray:
        """Give the spare GPUs one by one, at least 1 and fewer than there is room for; return how many each job got.

        Written out in one loop: it turns millions of times in a replay, and calls would take half of the time.
        """
        kinds, at_one, bounds = self._kinds, self._at_one, self._bounds
        following, speed, keen_grade, marks = kinds.following, kinds.speed, kinds.grade.tolist(), kinds.marks
        left, kind, shortness, short_grade = self._left.tolist(), self._kind, self._shortness, self._short_grade
        keen, short = self._keen, self._short
        playing = (1 << len(left)) - 1
        below = _below(len(left) + -len(left) % _PLACES)
        # Every former champion, the latest last: with the jobs after the next one that may beat it, and with
        # what they have to come up to.
        champions: list[tuple[int, int, int, int, int]] = []
        seen = champion = len(left) - 1  # jobs that come up to the one seen, and itself, need not be looked at again
        is_known, is_alone = False, False
        for _ in repeat(None, spare):
            if not is_known:
                outright, nearly, high, low = marks[kind[champion]]
                later = (keen[low] & short[short_grade[champion]] | keen[high]) & playing & below[seen]
                length = shortness[champion]
            while later:
                job = later.bit_length() - 1  # the highest bit is the first to meet
                later &= below[job]
                reached = kind[job]
                if reached >= nearly and (reached >= outright or shortness[job] > length):
                    champions.append((champion, later, outright, nearly, length))
                    champion, is_alone = job, True
                    outright, nearly, high, low = marks[reached]
                    later = (keen[low] & short[short_grade[job]] | keen[high]) & playing & below[job]
                    length = shortness[job]
            seen = champion
            left[seen] = room = left[seen] - 1
            if not room:
                playing ^= 1 << seen
                is_known, is_alone = is_alone, False
                if champions:
                    champion, later, outright, nearly, length = champions.pop()
                else:
                    is_known = False
                    seen = champion = playing.bit_length() - 1
                continue
            bit = 1 << seen
            old = kind[seen]
            kind[seen] = reached = following[old]
            old, new = keen_grade[old], keen_grade[reached]
            while old > new:
                keen[old] ^= bit
                old -= 1
            while old < new:
                old += 1
                keen[old] ^= bit
            if at_one:
                shortness[seen] = length = at_one[seen] / speed[reached]
                old, new = short_grade[seen], bisect_left(bounds, length)
                if old != new:
                    short_grade[seen] = new
                    while old > new:
                        short[old] ^= bit
                        old -= 1
                    while old < new:
                        old += 1
                        short[old] ^= bit
            is_known = False
            if champions:
                # Up to the place of the winner no job changed: it meets the champion before it once more.
                before_it, known, outright, nearly, length = champions[-1]
                if reached < nearly or (reached < outright and shortness[seen] <= length):
                    champion, later = before_it, known
                    champions.pop()
                    # No other job changed either where it won alone: the jobs that may beat this one are still known.
                    is_known, is_alone = is_alone, False
        grown: IntArray = (self._left - left)[::-1]
        return grown


@lru_cache(maxsize=1)  # a replay asks for the same list thousands of times
def _below(count: int) -> list[int]:
    """Return for each place the number whose bits are all the lower places."""
    return [(1 << place) - 1 for place in range(count)]


def _reaching(grades: IntArray) -> list[int]:
    """Return for each grade the jobs that reach it, given their grades; bit i is job i."""
    reached = np.packbits(grades >= np.arange(_GRADES + 1)[:, None], axis=1, bitorder="little")
    return [int.from_bytes(row, "little") for row in reached]
