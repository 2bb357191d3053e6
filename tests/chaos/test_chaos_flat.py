"""What a soak calls growth: a leak of any shape, and no noise."""

from random import Random

import pytest

from tests.chaos.flat import line
from tests.chaos.soak import pace, removed_rows

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


@pytest.mark.parametrize(("later", "is_flat"), [(0.0, True), (0.05, True), (0.5, False), (1.0, False)])
def test_database_is_flat_when_as_much_is_removed_as_is_written(later: float, is_flat: bool) -> None:
    """It grows while nothing is old enough, by 2 MiB a minute, and then by ``later`` of that pace."""
    young_s = TIMES_S[-1] / 6
    mib = [(min(at_s, young_s) + later * max(0.0, at_s - young_s)) / 30 for at_s in TIMES_S]
    found = pace(TIMES_S, mib, kept_s=young_s)

    assert found["is_flat"] == is_flat
    assert found["per_hour_first"] == 120.0
    soon_s = [at_s / 10 for at_s in TIMES_S]
    assert pace(soon_s, mib, kept_s=young_s / 10)["is_flat"] is None, "five minutes are too short to tell"


def test_rows_that_were_removed_are_read_from_the_log() -> None:
    """Each pass of the clean-up says how many of each kind; other lines are passed over."""
    log = """13:00:01 scheduler.1 | {"event": "old_rows_removed", "level": "info", "jobs": 40, "rounds": 2}
13:00:02 web.1 | listening
13:01:01 scheduler.1 | {"event": "old_rows_removed", "level": "info", "jobs": 2}
"""
    assert removed_rows(log) == {"jobs": 42, "rounds": 2}
