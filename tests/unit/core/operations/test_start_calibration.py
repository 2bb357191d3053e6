"""Times by which nine in ten start are held against what became of earlier ones, whatever that is."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.operations.start_calibration import (
    LATE_FRAC,
    LEAST_RATIOS,
    MOST_RATIOS,
    STEP,
    bound_s,
    level_next,
    ratio,
    stretch,
)
from tests.support.suite.examples import tried

WEEK_S = 7 * 86_400.0


def test_the_rank_is_that_of_split_conformal_prediction() -> None:
    """Of 99 ratios the 90th covers the next one with a chance of 90 in 100."""
    ratios = [1.0 + number for number in range(99)]

    assert stretch(ratios, 0.1) == 90.0
    assert stretch(ratios, 0.05) == 95.0
    assert stretch(ratios, 0.001) == 99.0  # fewer than it takes: the largest
    assert stretch(ratios, 0.0) == math.inf


def test_few_waits_stretch_nothing_and_old_ones_are_forgotten() -> None:
    """Until enough have ended the futures are believed; later only the newest count."""
    assert stretch([9.0] * (LEAST_RATIOS - 1), LATE_FRAC) == 1.0
    assert stretch([9.0] * LEAST_RATIOS, LATE_FRAC) == 9.0
    assert stretch([9.0] * MOST_RATIOS + [2.0] * MOST_RATIOS, LATE_FRAC) == 2.0


def test_what_was_in_time_makes_no_promise_looser() -> None:
    """Jobs that start sooner than said are welcome: no later one is late on their account."""
    level = LATE_FRAC
    for _ in range(100):
        level = level_next(level, late=False)

    assert level == LATE_FRAC
    assert stretch([0.1] * 100, level) == 1.0


def test_a_bound_beyond_the_futures_is_none() -> None:
    """Nothing was simulated that far."""
    assert bound_s(3_600.0, 2.0, horizon_s=WEEK_S) == 7_200.0
    assert bound_s(4 * 86_400.0, 2.0, horizon_s=WEEK_S) == math.inf
    assert bound_s(60.0, math.inf, horizon_s=WEEK_S) == math.inf
    assert bound_s(0.0, math.inf, horizon_s=WEEK_S) == math.inf
    assert bound_s(math.inf, 1.0, horizon_s=WEEK_S) == math.inf


@given(
    ratios=st.lists(st.floats(0.0, 1e6), max_size=60),
    levels=st.tuples(st.floats(-0.5, LATE_FRAC), st.floats(-0.5, LATE_FRAC)),
    simulated_s=st.floats(0.0, WEEK_S),
)
def test_a_bound_is_never_sooner_than_simulated_nor_than_a_laxer_one(
    ratios: list[float], levels: tuple[float, float], simulated_s: float
) -> None:
    """Stretching only adds time, and the more the fewer may be late."""
    strict, lax = sorted(levels)
    bounds = [bound_s(simulated_s, stretch(ratios, level), horizon_s=WEEK_S) for level in (lax, strict)]

    assert simulated_s <= bounds[0] <= bounds[1]


# What an adversary does for a while: how often each of ten jobs is just late, if it can be, or how long it takes.
PHASES = st.lists(
    st.tuples(st.integers(20, 200), st.sampled_from(["late", "early", "slow", "tenth", "swing"])),
    min_size=1,
    max_size=10,
)


@tried(60)
@given(phases=PHASES, delay=st.sampled_from([0, 0, 5, 40]))
def test_whoever_decides_how_late_jobs_are_few_are(phases: list[tuple[int, str]], delay: int) -> None:
    """In every stretch of jobs at most one in ten is late beyond a constant, even where all fight the bound.

    With outcomes that come later, by so many jobs, as many more may be.
    """
    level, ratios = LATE_FRAC, list[float]()
    open_jobs: list[tuple[bool, float]] = []
    lates: list[bool] = []
    for length, how in phases:
        for number in range(length):
            by_s = bound_s(1_000.0, stretch(ratios, level), horizon_s=math.inf)
            took_s = _took_s(how, number, by_s)
            lates.append(took_s > by_s)
            open_jobs.append((took_s > by_s, ratio(took_s=took_s, simulated_s=1_000.0)))
            if len(open_jobs) > delay:
                late, known = open_jobs.pop(0)
                level = level_next(level, late=late)
                ratios.append(known)

    spare = LATE_FRAC / STEP + 1 + delay
    worst = _most_beyond(lates)
    assert worst <= spare + 1e-6
    if not delay and len(lates) >= 420:
        assert sum(lates) / len(lates) <= 0.15


def _took_s(how: str, number: int, by_s: float) -> float:
    just_late_s = by_s * 1.01 + 1.0 if math.isfinite(by_s) else 1_000.0
    match how:
        case "late":
            return just_late_s
        case "tenth":
            return just_late_s if number % 10 == 0 else 1.0
        case "slow":
            return 1_000.0 * 1.05**number
        case "swing":
            return 1_000.0 * (1.0 + 100.0 * (number % 40 >= 20))
        case _:
            return 1.0


def _most_beyond(lates: list[bool]) -> float:
    """Return the most late jobs beyond one in ten over all stretches of neighbours."""
    most = here = 0.0
    for late in lates:
        here = max(0.0, here + late - LATE_FRAC)
        most = max(most, here)
    return most


def test_without_the_level_drift_is_met_too_late() -> None:
    """The quantile alone, against jobs that take longer and longer: what the level is for."""
    ratios: list[float] = []
    late = 0
    for number in range(600):
        took = 1.01**number
        late += took > stretch(ratios, LATE_FRAC)
        ratios.append(took)

    assert late > 500
    assert ratio(took_s=10.0, simulated_s=0.0) == pytest.approx(10.0)
