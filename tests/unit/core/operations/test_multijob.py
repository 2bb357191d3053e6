"""Searches: predicted accuracy, promising configurations, and what early feedback gains."""

import math
from itertools import accumulate

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.models.searches import SearchCase, found_by_feedback_s, found_in_order_s
from scheduler.core.operations.multijob import (
    Promise,
    chance_of_reaching,
    feedback_times_s,
    fit_curve,
    rank,
    weights,
)

MINUTE_S = 60.0
CIFAR = SearchCase(
    configurations=100,
    num_gpus=16,
    run_s=889 * MINUTE_S,
    winner=80,
    winner_s=850 * MINUTE_S,
    feedback_s=16 * MINUTE_S,
)


def test_a_search_over_a_hundred_configurations_ends_almost_six_times_earlier() -> None:
    """5295 minutes in order, 934 with 16 minutes of feedback for all: a ratio of 5.67."""
    in_order, by_feedback = found_in_order_s(CIFAR) / MINUTE_S, found_by_feedback_s(CIFAR) / MINUTE_S

    assert in_order == 5_295
    assert by_feedback == 934
    assert in_order / by_feedback == pytest.approx(5.67, abs=0.005)


def test_a_target_reached_within_the_feedback_needs_no_ranking() -> None:
    """A winner in the sixth wave that needs 10 minutes: five slices, then its own 10 minutes."""
    quick = SearchCase(
        configurations=100, num_gpus=16, run_s=889 * MINUTE_S, winner=80, winner_s=600.0, feedback_s=16 * MINUTE_S
    )

    assert found_by_feedback_s(quick) == 5 * 16 * MINUTE_S + 600.0


@given(
    limit=st.floats(0.5, 1.0),
    drop=st.floats(0.1, 0.5),
    exponent=st.integers(4, 40).map(lambda step: 0.05 * step),
    gaps=st.lists(st.integers(1, 9), min_size=5, max_size=40),
    every=st.sampled_from([1, 50]),
)
def test_a_power_law_is_found_again(limit: float, drop: float, exponent: float, gaps: list[int], every: int) -> None:
    """Without noise the fit gives back the curve, however far apart the values are, and what it will reach."""
    parts = list(accumulate(gaps, initial=1))  # the law is of parts of so many steps
    fit = fit_curve([part * every for part in parts], [limit - drop * part**-exponent for part in parts])

    assert fit is not None
    assert fit.limit == pytest.approx(limit, abs=1e-6)
    assert fit.at(1_000.0 * every) == pytest.approx(limit - drop * 1_000.0**-exponent, abs=1e-6)


def test_four_values_are_too_few_and_a_falling_curve_promises_nothing() -> None:
    """A fit needs five values; one that falls is expected to stay where it is."""
    assert fit_curve(range(1, 5), [0.1, 0.2, 0.3, 0.4]) is None
    falling = fit_curve(range(1, 6), [0.5, 0.4, 0.35, 0.32, 0.3])
    assert falling is not None
    assert falling.drop == 0.0
    assert falling.limit == pytest.approx(0.374)


def test_chance_is_a_half_at_the_predicted_accuracy_and_sure_without_error() -> None:
    """The chance falls with the target and is 0 or 1 when the curve is exact."""
    noisy = fit_curve(range(1, 7), [0.50, 0.61, 0.64, 0.70, 0.69, 0.73])
    assert noisy is not None
    predicted = noisy.at(100.0)

    assert chance_of_reaching(noisy, target=predicted, by_step=100.0) == pytest.approx(0.5)
    assert chance_of_reaching(noisy, target=predicted + 0.1, by_step=100.0) < 0.01
    assert chance_of_reaching(noisy, target=predicted - 0.1, by_step=100.0) > 0.99
    exact = fit_curve(range(1, 9), [1.0 - 0.5 / step for step in range(1, 9)])
    assert exact is not None
    assert chance_of_reaching(exact, target=0.99, by_step=51.0) == 1.0
    assert chance_of_reaching(exact, target=0.999, by_step=51.0) == 0.0


def test_promising_configurations_get_what_their_chances_add_up_to() -> None:
    """Chances .95, .9, .9, .2, .1, .01 on 8 GPUs: three promising, two take turns, one is ended."""
    found = rank([0.95, 0.2, 0.9, 0.01, 0.9, 0.1], slots=8)

    assert found.threshold == 0.9
    assert found.promises == (
        Promise.PROMISING,
        Promise.OPPORTUNISTIC,
        Promise.PROMISING,
        Promise.POOR,
        Promise.PROMISING,
        Promise.OPPORTUNISTIC,
    )


def test_no_more_are_promising_than_there_are_gpus() -> None:
    """Ten sure configurations on four GPUs: the first four, the others take turns."""
    found = rank([1.0] * 10, slots=4)

    assert found.promises == (Promise.PROMISING,) * 4 + (Promise.OPPORTUNISTIC,) * 6


@given(chances=st.lists(st.floats(0.0, 1.0), max_size=30), slots=st.integers(1, 16))
def test_ranking_is_by_chance(chances: list[float], slots: int) -> None:
    """Promising ones have at least the threshold, none above 5 % is ended, and the GPUs suffice."""
    found = rank(chances, slots=slots)
    promising = [chance for chance, promise in zip(chances, found.promises, strict=True) if promise == "promising"]

    assert len(promising) <= slots
    assert all(chance >= found.threshold for chance in promising)
    assert all((chance < 0.05) == (promise == "poor") for chance, promise in zip(chances, found.promises, strict=True))
    assert len(promising) <= math.fsum(promising) + 0.5 + 1e-9


def test_the_most_promising_get_more_of_the_round_robin() -> None:
    """Two of four weigh eight times as much; a hopeless one is not favoured."""
    assert weights([0.3, 0.9, 0.9, 0.1], top=2) == (1.0, 8.0, 8.0, 1.0)
    assert weights([0.01, 0.02], top=2) == (1.0, 1.0)


def test_feedback_comes_at_doubling_times() -> None:
    """Looks after e, 2e, 4e ... until the run would be over."""
    assert feedback_times_s(16.0, 100.0) == [16.0, 32.0, 64.0]


@pytest.mark.parametrize("first", [1, 10**12, 2**61])
@pytest.mark.parametrize("loss", [0.0, -1.0, -1e12, 1e12])
def test_steps_that_no_float_tells_apart_still_have_a_fit(first: int, loss: float) -> None:
    """What a job reports may be anything within the ranges of a report; the prediction is a number, not an error."""
    fit = fit_curve([first + number for number in range(5)], [loss] * 5)

    assert fit is not None
    assert math.isfinite(fit.at(10 * first))
    assert 0.0 <= chance_of_reaching(fit, target=0.5, by_step=10 * first) <= 1.0
