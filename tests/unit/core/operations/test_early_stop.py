"""The rule that ends a training which has settled, and what it saves."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.models.accuracy import Training, curve, draw_training
from benchmarks.models.early_stop import epochs_to_within, epochs_until_done, saving
from scheduler.core.operations.early_stop import is_done, is_settled
from scheduler.simulator.draws import Draws


def test_ten_epochs_within_a_thousandth_of_the_best_end_a_training() -> None:
    """Nine are not enough, and one epoch outside begins the count again."""
    flat = [0.5, *[0.9] * 10]

    assert not is_done(flat[:10])
    assert is_done(flat)
    assert epochs_until_done([*flat, 0.9, 0.9]) == 11
    assert not is_done([0.5, *[0.9] * 5, 0.8, *[0.9] * 9])
    assert is_done([0.9000, *[0.9008] * 9])
    assert not is_done([0.9000, *[0.9010] * 9])


def test_a_curve_that_rises_is_never_ended() -> None:
    """Ten epochs that each gain a hundredth are no plateau, though each is the best so far."""
    rising = [0.1 + 0.01 * epoch for epoch in range(80)]

    assert epochs_until_done(rising) == 80


@given(accuracy=st.lists(st.floats(0.01, 1.0), min_size=1, max_size=40))
def test_the_rule_looks_at_nothing_that_comes_later(accuracy: list[float]) -> None:
    """What has ended stays ended whatever would have followed, and its last epochs agree with its best."""
    epochs = epochs_until_done(accuracy)

    assert epochs_until_done([*accuracy[:epochs], 1.0, 0.01]) in (epochs, epochs + 2)
    if epochs < len(accuracy):
        assert min(accuracy[epochs - 10 : epochs]) >= max(accuracy[:epochs]) * 0.999


def test_a_made_up_training_settles_where_it_should() -> None:
    """100 epochs that settle at 40 %: the gap is a thousandth of the final accuracy after epoch 40."""
    values = curve(Training(epochs=100, final=0.8, start=0.2, settles_at=0.4), Draws(0, "noise"))

    assert values[0] == pytest.approx(0.2)
    assert values[39] == pytest.approx(0.8 * 0.999)
    assert epochs_to_within(values) == 40
    assert epochs_until_done(values) < 60


def test_saving_counts_gpu_time_and_what_it_costs() -> None:
    """One training that settles early and one that never does: only the first saves, and loses next to nothing."""
    settled = [0.5, *[0.9] * 99]
    rising = [0.1 + 0.005 * epoch for epoch in range(100)]
    found = saving([settled, rising], [60.0, 600.0])

    assert found.gpu_s == 66_000.0
    assert found.saved_gpu_s == 89 * 60.0
    assert found.lost_accuracy_frac == 0.0
    assert found.early_frac == 0.5


def test_drawn_trainings_settle_as_philly_saw() -> None:
    """Three of four come within a thousandth of their best in 40 % of their epochs; the rule costs under 0.1 %."""
    draws = Draws(11, "trainings")
    curves = [curve(draw_training(draws), draws) for _ in range(400)]
    found = saving(curves, [1.0] * len(curves))

    assert found.early_frac == pytest.approx(0.75, abs=0.05)
    assert 0 < found.lost_accuracy_frac < 0.001
    assert 0.3 < found.saved_gpu_s / found.gpu_s < 0.7


@pytest.mark.parametrize("noise", [0.0, 0.02])
def test_fitted_loss_settles_near_its_floor_and_not_while_it_falls(noise: float) -> None:
    """The curve of a training is cut off late; noise does not end it, and few reports say nothing."""
    draws = random.Random(7)
    steps = list(range(0, 80_000, 40))
    losses = [(1 / (0.01 * step + 0.5) + 0.5) * (1 + noise * draws.gauss(0, 1)) for step in steps]
    settled_at = next(steps[at] for at in range(100, len(steps), 20) if is_settled(steps[:at], losses[:at]))

    assert 20_000 <= settled_at <= 70_000
    assert not is_settled(steps[:40], [0.5] * 40)
    assert not is_settled([], [])


def test_losses_that_are_no_numbers_end_nothing() -> None:
    """A training that diverged has not settled."""
    assert not is_settled(range(100), [math.nan] * 100)
    assert not is_settled(range(100), [-1.0] * 100)
    assert not is_settled([0] * 100, [1.0] * 100)
