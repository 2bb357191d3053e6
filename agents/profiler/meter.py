"""Measures the mini-batch rate of a job at one core count after another, between its mini-batches.

The job trains on while it is measured: no step is lost, and no process is started for it.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import linear_regression, median

from agents.profiler.search import next_cores

# After a change of cores: caches of the count before, and what each reader had begun then.
DROPPED_STEPS = 5
# A job is slow at first: memory is claimed, kernels are chosen. That is over after so long.
WARM_UP_S = 1.5
# Each count is measured twice, the second time in the opposite order: a machine that becomes slower or faster meanwhile
# does so for all. Where the two ways tell relative speeds that are further apart than this, both are gone once more:
# cores of a machine that others use are not equally fast for long.
AGREED_FRAC = 0.04
# One time lasts so many steps, fewer when they are long, never fewer than the least; and so long, as
# what else a machine does comes in bursts.
MOST_STEPS, LEAST_STEPS = 25, 6
LEAST_S, ENOUGH_S, TOO_LONG_S = 0.75, 1.5, 15.0
# The steps of one time in so many runs; the median of these does not see a neighbour's burst.
RUNS = 5
# Several readers hand over their mini-batches at nearly the same moment; a run has so many of these moments.
HANDOVERS = 16

Cores = Sequence[int]


class CoreMeter:
    """Walks through core counts, and back.

    Attributes:
        rates: Steps a second by core count.
        cores: The cores that there are; ``limit`` takes some away.
    """

    def __init__(self, cores: Cores, pin: Callable[[Cores], None]) -> None:
        """Begin with all cores; ``pin`` limits the job to some of them."""
        self.rates: dict[int, float] = {}
        self.cores = tuple(cores)
        self._pin = pin
        self._back: list[int] = []  # counts to be measured again, the next one last
        self._steps_s: dict[int, list[float]] = {}
        self._at: int | None = None
        self._dropped = 0
        self._warm_at_s: float | None = None
        self._marks_s: list[float] = []
        self._go_on()

    @property
    def is_done(self) -> bool:
        """Return whether all is measured that the search asks for."""
        return self._at is None

    def step(self, now_s: float, *, readers: int = 0) -> None:
        """Take note of the end of a step at ``now_s``; ``readers`` processes prepare mini-batches."""
        if self._at is None:
            return
        if self._warm_at_s is None:
            self._warm_at_s = now_s + WARM_UP_S
        if self._dropped < max(DROPPED_STEPS, readers) or now_s < self._warm_at_s:
            self._dropped += 1
            self._marks_s = [now_s]
            return
        self._marks_s.append(now_s)
        steps, took_s = len(self._marks_s) - 1, now_s - self._marks_s[0]
        if steps < LEAST_STEPS and took_s < TOO_LONG_S:
            return
        if (steps >= MOST_STEPS and took_s >= LEAST_S) or took_s >= ENOUGH_S:
            known_s = self._steps_s.setdefault(self._at, [])
            if not known_s:
                self._back.append(self._at)
            known_s.append(max(step_s(self._marks_s, readers=readers), 1e-9))
            self.rates[self._at] = 1.0 / median(known_s)
            self._go_on()

    def limit(self, cores: Cores) -> None:
        """Go on with these cores, from the start of the present point.

        What was measured on more than there are now stays true, and is not asked for again.
        """
        self.cores = tuple(cores)
        self._go_on()

    def _go_on(self) -> None:
        """Go to the next count: one that the search asks for, or the next on the way back."""
        count = next_cores(self.rates, most=len(self.cores))
        while count is None and (self._back or self._doubts()):
            again = self._back.pop()
            count = again if again <= len(self.cores) else None
        self._at, self._dropped, self._marks_s = count, 0, []
        if count is not None:
            self._pin(self.cores[:count])

    def _doubts(self) -> bool:
        """Go there and back once more where two ways did not tell the same; return whether."""
        walked = [count for count in self._steps_s if count <= len(self.cores)]
        ways_s = [self._steps_s[count] for count in walked]
        if not walked or any(len(known_s) != 2 for known_s in ways_s):
            return False
        there_s, back_s = ways_s[0]
        if all(abs(there * back_s / (back * there_s) - 1.0) <= AGREED_FRAC for there, back in ways_s):
            return False
        self._back = [*walked, *reversed(walked)]
        return True


def step_s(marks_s: Sequence[float], *, readers: int = 0) -> float:
    """Return the seconds of a step: the median over runs of steps that follow each other.

    Args:
        marks_s: Ends of steps, the first of them where the measuring began; at least two.
        readers: Processes that prepare mini-batches.
    """
    steps = len(marks_s) - 1
    runs = max(1, min(RUNS, steps // (HANDOVERS * readers) if readers > 1 else steps))
    edges = [round(run * steps / runs) for run in range(runs + 1)]
    return median(_slope_s(marks_s[first : last + 1]) for first, last in pairwise(edges))


def _slope_s(marks_s: Sequence[float]) -> float:
    """Return the seconds of a step by least squares: at which of its ends a bunch of steps is cut matters little."""
    return linear_regression(range(len(marks_s)), marks_s).slope
