"""Fits of Optimus: losses over epochs, speed over parameter servers and workers."""

import numpy as np
import pytest

from benchmarks.models.convergence import predicted_end
from benchmarks.models.speed_fit import SpeedModel, fit_speed, non_negative_fit
from scheduler.core.performance.curve_fit import LossCurve, fit_loss, without_outliers

CURVE = LossCurve(falling=0.05, start=0.5, floor=0.1)
POINTS = [(1, 1), (2, 2), (4, 4), (2, 4), (4, 2), (1, 4), (6, 6), (8, 4)]


def test_exact_losses_give_the_curve_back() -> None:
    """Optimus example 1: six losses, and the three coefficients."""
    epochs = [1, 2, 4, 8, 16, 32]
    losses = [CURVE.loss(epoch) for epoch in epochs]
    assert [round(loss, 4) for loss in losses] == [1.9182, 1.7667, 1.5286, 1.2111, 0.8692, 0.5762]
    found = fit_loss(epochs, losses)

    assert found is not None
    assert (found.falling, found.start, found.floor) == pytest.approx((0.05, 0.5, 0.1), abs=1e-6)


def _converged_at(curve: LossCurve) -> int:
    """Return the epoch that lies at most 5 % of the first loss below the tenth before it."""
    return next(epoch for epoch in range(10, 500) if curve.loss(epoch - 10) - curve.loss(epoch) <= 0.05 * curve.loss(1))


def _random_curve(draws: np.random.Generator) -> LossCurve:
    falling = float(np.exp(draws.uniform(np.log(0.01), np.log(0.5))))
    return LossCurve(falling=falling, start=float(draws.uniform(0.8, 1.2)), floor=float(draws.uniform(0, 0.3)))


def test_the_end_is_known_at_half_time() -> None:
    """With 2 % noise on the losses most forecasts made at half the run are within 15 % of the end."""
    draws = np.random.default_rng(0)
    errors = []
    for _ in range(40):
        curve = _random_curve(draws)
        end = _converged_at(curve)
        losses = [curve.loss(epoch) * (1 + 0.02 * draws.standard_normal()) for epoch in range(1, max(3, end // 2) + 1)]
        errors.append(abs(predicted_end(losses) - end) / end)

    assert np.mean(np.array(errors) <= 0.15) >= 0.75
    assert np.median(errors) <= 0.10


def test_steps_of_the_learning_rate_defeat_the_forecast() -> None:
    """Losses that fall by 30 % at 1/2 and 3/4 of the epochs: at 1/4 most forecasts are off by more than half."""
    draws = np.random.default_rng(1)
    wrong = []
    for _ in range(20):
        curve = _random_curve(draws)
        epochs = 100
        losses = [curve.loss(epoch) for epoch in range(1, epochs // 4 + 1)]
        # Until the first step nothing tells this run from one that converges without steps.
        wrong.append(abs(predicted_end(losses, most_epochs=1_000) - epochs) / epochs > 0.5)
    assert np.mean(wrong) > 0.5


def test_forecasts_without_enough_losses() -> None:
    """Fewer than three losses give 20 more epochs; a flat curve ends at once; nothing ends in the past."""
    assert predicted_end([]) == 20
    assert predicted_end([1.0, 0.9]) == 22
    assert predicted_end([0.5] * 15) == 16
    assert predicted_end([1.0, 0.5, 0.0]) == 23


def test_one_wild_loss_is_smoothed() -> None:
    """A loss beyond all its neighbours becomes their mean, the others stay."""
    losses = [1.0, 0.9, 5.0, 0.7, 0.6]
    smooth = without_outliers(losses).tolist()
    assert smooth[2] == pytest.approx((1.0 + 0.9 + 0.7 + 0.6) / 4)
    assert [smooth[at] for at in (0, 1, 3, 4)] == [1.0, 0.9, 0.7, 0.6]


@pytest.mark.parametrize(
    ("terms", "batch"), [((0.02, 0.5, 0.30, 0.01, 0.005), 64.0), ((0.5, 0.3, 0.01, 0.02), None)], ids=["sync", "async"]
)
def test_exact_speeds_give_the_model_back(terms: tuple[float, ...], batch: float | None) -> None:
    """Optimus example 2: eight exact points give the coefficients, synchronous and asynchronous."""
    truth = SpeedModel(terms=terms, batch=batch, measured={})
    if batch is not None:
        assert (round(truth.speed(1, 1), 4), round(truth.speed(1, 2), 4)) == (0.4773, 0.5666)
    found = fit_speed({point: truth.speed(*point) for point in POINTS}, batch=batch)

    assert found is not None
    assert found.terms == pytest.approx(terms, abs=1e-9)
    assert found.speed(3, 5) == pytest.approx(truth.speed(3, 5), abs=1e-9)


def test_no_coefficient_is_ever_negative() -> None:
    """On 1,000 noisy sets of points and losses every coefficient is at least 0, and no forecast lies in the past."""
    draws = np.random.default_rng(2)
    for _ in range(1_000):
        inputs = draws.uniform(0, 5, size=(8, 5))
        assert (non_negative_fit(inputs, draws.normal(0, 3, size=8)) >= 0).all()
    for _ in range(60):
        losses = draws.uniform(0.01, 2.0, size=int(draws.integers(1, 30))).tolist()
        curve = fit_loss(range(1, len(losses) + 1), losses)
        assert curve is None or min(curve.falling, curve.start, curve.floor) >= 0
        assert predicted_end(losses) > len(losses)


def test_a_known_speed_goes_before_the_model() -> None:
    """A measured point is returned as it was measured, however far the model is off there."""
    points = {point: 1.0 + point[0] for point in POINTS}
    found = fit_speed(points, batch=64.0)
    assert found is not None
    assert [found.speed(*point) for point in POINTS] == [points[point] for point in POINTS]
    assert fit_speed(dict(list(points.items())[:4]), batch=64.0) is None
