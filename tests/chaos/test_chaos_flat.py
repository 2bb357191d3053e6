"""What a soak calls growth: a leak of any shape, and no noise."""

from random import Random

from tests.chaos.flat import line

TIMES_S = [30.0 * number for number in range(100)]


def test_noise_is_no_growth() -> None:
    """Memory that goes up and down by chance."""
    for seed in range(50):
        rng = Random(seed)
        found = line(TIMES_S, [200.0 + rng.gauss(0.0, 5.0) for _ in TIMES_S])
        assert not found.grows(at_least=5.0), seed


def test_leak_is_growth() -> None:
    """A megabyte a minute below noise of five."""
    rng = Random(1)
    found = line(TIMES_S, [200.0 + at_s / 60 + rng.gauss(0.0, 5.0) for at_s in TIMES_S])

    assert found.grows(at_least=5.0)
    assert 55.0 < found.per_hour < 65.0


def test_small_rise_without_noise_is_no_growth() -> None:
    """A handle more over an hour is none that matters."""
    assert not line(TIMES_S, [20.0] * 50 + [21.0] * 50).grows(at_least=5.0)
