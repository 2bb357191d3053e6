"""Measures the mini-batch rate of a job at one core count after another, between its mini-batches.

The job trains on while it is measured: no step is lost, and no process is started for it.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import median

from agents.profiler.search import next_cores

# After a change of cores: caches and read-ahead of the count before.
DROPPED_STEPS = 5
# A job is slow at first: memory is claimed, kernels are chosen. That is over after so long.
WARM_UP_S = 1.5
# A point is measured over so many steps, fewer when they are long, never fewer than the least; and for so long, as what
# else a machine does comes in bursts.
MOST_STEPS, LEAST_STEPS = 50, 6
LEAST_S, ENOUGH_S, TOO_LONG_S = 1.5, 3.0, 30.0
# The steps of a point in so many runs; the median of these does not see a neighbour's burst.
RUNS = 5

Cores = Sequence[int]


class CoreMeter:
    """Walks through core counts.

    Attributes:
        rates: Steps a second by core count.
        cores: The cores that there are; ``limit`` takes some away.
    """

    def __init__(self, cores: Cores, pin: Callable[[Cores], None]) -> None:
        """Begin with all cores; ``pin`` limits the job to some of them."""
        self.rates: dict[int, float] = {}
        self.cores = tuple(cores)
        self._pin = pin
        self._at: int | None = None
        self._dropped = 0
        self._warm_at_s: float | None = None
        self._marks_s: list[float] = []
        self._go_to(next_cores(self.rates, most=len(self.cores)))

    @property
    def is_done(self) -> bool:
        """Return whether all is measured that the search asks for."""
        return self._at is None

    def step(self, now_s: float) -> None:
        """Take note of the end of a step at ``now_s``."""
        if self._at is None:
            return
        if self._warm_at_s is None:
            self._warm_at_s = now_s + WARM_UP_S
        if self._dropped < DROPPED_STEPS or now_s < self._warm_at_s:
            self._dropped += 1
            self._marks_s = [now_s]
            return
        self._marks_s.append(now_s)
        steps, took_s = len(self._marks_s) - 1, now_s - self._marks_s[0]
        if steps < LEAST_STEPS and took_s < TOO_LONG_S:
            return
        if (steps >= MOST_STEPS and took_s >= LEAST_S) or took_s >= ENOUGH_S:
            self.rates[self._at] = 1.0 / max(step_s(self._marks_s), 1e-9)
            self._go_to(next_cores(self.rates, most=len(self.cores)))

    def limit(self, cores: Cores) -> None:
        """Go on with these cores, from the start of the present point.

        What was measured on more than there are now stays true, and is not asked for again.
        """
        self.cores = tuple(cores)
        self._go_to(next_cores(self.rates, most=len(self.cores)))

    def _go_to(self, count: int | None) -> None:
        self._at, self._dropped, self._marks_s = count, 0, []
        if count is not None:
            self._pin(self.cores[:count])


def step_s(marks_s: Sequence[float]) -> float:
    """Return the seconds of a step: the median over runs of steps that follow each other.

    Args:
        marks_s: Ends of steps, the first of them where the measuring began; at least two.
    """
    steps = len(marks_s) - 1
    runs = min(RUNS, steps)
    edges = [round(run * steps / runs) for run in range(runs + 1)]
    return median((marks_s[last] - marks_s[first]) / (last - first) for first, last in pairwise(edges))
