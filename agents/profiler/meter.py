"""Measures the mini-batch rate of a job at one core count after another, between its mini-batches.

The job trains on while it is measured: no step is lost, and no process is started for it.
"""

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import linear_regression

from agents.profiler.estimate import FASTEST_FRAC, READ_FRAC, Visit, relative_error, steps_s
from agents.profiler.search import next_cores

# Steps left out after a change of cores: caches and readers are still those of the count before.
DROPPED_STEPS = 5
# A job is slow at first: memory is claimed, kernels are chosen. That is over after so long.
WARM_UP_S = 1.5
# Each count is visited twice, the second time in the opposite order, and twice more while the error of its speed is
# above ENOUGH_ERROR, up to MOST_VISITS: cores that other processes use change their speed. Two visits agree by chance
# more easily, so they have a smaller bound. Visits with readers are longer and even out such changes: two of them need
# no smaller bound, and there are at most three.
ENOUGH_ERROR, ENOUGH_ERROR_OF_TWO = 0.02, 0.004
MOST_VISITS, MOST_VISITS_READ = 8, 3
# Steps and seconds of one visit. Many short visits see the machine at more moments; with readers a visit is longer,
# since its first mini-batches were prepared at another core count.
MOST_STEPS, LEAST_STEPS = 12, 6
MOST_STEPS_READ = 25
LEAST_S, ENOUGH_S, TOO_LONG_S = 0.75, 1.5, 15.0
# A visit is cut into at most RUNS runs of at least RUN_STEPS steps each.
RUNS, RUN_STEPS = 5, 4
# Several readers hand over their mini-batches at nearly the same moment; a run covers so many of these moments.
HANDOVERS = 16

Cores = Sequence[int]


class CoreMeter:
    """Measures one core count after another, and the same counts on the way back.

    Attributes:
        rates: Steps a second by core count, with the effect of other processes removed as far as possible.
        cores: The cores that there are; ``limit`` takes some away.
    """

    def __init__(self, cores: Cores, pin: Callable[[Cores], None]) -> None:
        """Begin with all cores; ``pin`` limits the job to some of them."""
        self.rates: dict[int, float] = {}
        self.cores = tuple(cores)
        self._pin = pin
        self._back: list[int] = []  # counts to be measured again, the next one last
        self._visits: dict[int, list[Visit]] = {}
        self._is_read = False  # whether readers prepare its mini-batches
        self._at: int | None = None
        self._dropped = 0
        self._warm_at_s: float | None = None
        self._marks_s: list[float] = []
        self._go_on()

    @property
    def is_done(self) -> bool:
        """Return whether the search asks for no further count."""
        return self._at is None

    @property
    def error(self) -> float | None:
        """Return the largest standard error of a speed relative to that on all cores; None when it is not known."""
        return relative_error(self._walked(), frac=self._frac)

    @property
    def _frac(self) -> float:
        return READ_FRAC if self._is_read else FASTEST_FRAC

    def step(self, now_s: float, *, readers: int = 0) -> None:
        """Take note of the end of a step at ``now_s``; ``readers`` processes prepare mini-batches."""
        if self._at is None:
            return
        self._is_read |= readers > 0
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
        most = MOST_STEPS_READ if self._is_read else MOST_STEPS
        if (steps >= most and took_s >= LEAST_S) or took_s >= ENOUGH_S:
            known = self._visits.setdefault(self._at, [])
            if not known:
                self._back.append(self._at)
            at_s = (self._marks_s[0] + now_s) / 2
            known.append(Visit(at_s=at_s, runs_s=runs_s(self._marks_s, readers=readers)))
            found_s = steps_s(self._walked(), frac=self._frac)
            self.rates |= {cores: 1.0 / step_s for cores, step_s in found_s.items()}
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

    def _walked(self) -> dict[int, list[Visit]]:
        """Return the visits to counts that there still are."""
        return {count: known for count, known in self._visits.items() if count <= len(self.cores)}

    def _doubts(self) -> bool:
        """Return whether the error is too large, and begin another pass if so."""
        walked = self._walked()
        times = max(map(len, walked.values()), default=0)
        if not times or times >= (MOST_VISITS_READ if self._is_read else MOST_VISITS):
            return False
        enough = ENOUGH_ERROR_OF_TWO if times == 2 and not self._is_read else ENOUGH_ERROR
        if self.error is not None and self.error <= enough:
            return False
        down = [*reversed(walked)]
        self._back = down if self._is_read else [*walked, *down]
        return True


def runs_s(marks_s: Sequence[float], *, readers: int = 0) -> tuple[float, ...]:
    """Return the seconds of a step in each of several runs of steps that follow each other.

    Args:
        marks_s: Ends of steps, the first of them where the measuring began; at least two.
        readers: Processes that prepare mini-batches.
    """
    steps = len(marks_s) - 1
    runs = max(1, min(RUNS, steps // (HANDOVERS * readers if readers > 1 else RUN_STEPS)))
    edges = [round(run * steps / runs) for run in range(runs + 1)]
    return tuple(max(_slope_s(marks_s[first : last + 1]), 1e-9) for first, last in pairwise(edges))


def _slope_s(marks_s: Sequence[float]) -> float:
    """Return the seconds of a step by least squares: at which of its ends a bunch of steps is cut matters little."""
    return linear_regression(range(len(marks_s)), marks_s).slope
