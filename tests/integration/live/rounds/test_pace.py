"""Early rounds leave most of the time to what asks for them."""

import pytest

from scheduler.broker import WAKE_MS
from scheduler.tasks import REST, REST_MOST_S, REST_OF_SUBMITS, REST_OF_SUBMITS_MOST_S, Pace


def test_early_round_rests_in_proportion_to_the_last_one() -> None:
    """A short one delays none by more than moments, a long one by no more than what a request is kept for."""
    pace = Pace()

    assert pace.rest_s("submit", now_s=0.0) == 0.0
    pace.note(began_s=100.0, ended_s=100.01)
    assert pace.rest_s("end", now_s=100.01) == pytest.approx(REST * 0.01)
    assert pace.rest_s("submit", now_s=100.01) == pytest.approx(REST_OF_SUBMITS * 0.01)
    assert pace.rest_s("submit", now_s=100.1) == 0.0
    pace.note(began_s=200.0, ended_s=230.0)
    assert pace.rest_s("end", now_s=230.0) == REST_MOST_S
    assert pace.rest_s("submit", now_s=230.0) == REST_OF_SUBMITS_MOST_S < WAKE_MS / 1e3


def test_regular_round_does_not_rest() -> None:
    """It comes by the clock."""
    pace = Pace()
    pace.note(began_s=0.0, ended_s=30.0)

    assert pace.rest_s("beat", now_s=30.0) == 0.0
