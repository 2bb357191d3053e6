"""Where the GPU-hours went: whatever was measured, every GPU-second is of exactly one kind."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from scheduler.core.operations.gpu_hours import KINDS, gpu_seconds, overlap_gpu_s
from tests.support.suite.examples import tried

NAMES = ("num", "drained", "broken", "allocated", "busy", "unknown", "used", "reconfigure", "lost", "fragmented_frac")
columns = st.integers(1, 6).flatmap(
    lambda size: st.fixed_dictionaries(
        {name: hnp.arrays(np.float64, size, elements=st.floats(-5.0, 1e5)) for name in NAMES}
    )
)


@tried(300)
@given(columns)
def test_kinds_add_up_to_the_capacity(given_columns: dict[str, np.ndarray]) -> None:
    """Also when measurements contradict each other; none is below 0."""
    found = gpu_seconds(**given_columns)
    total = sum(found.values())

    assert tuple(found) == KINDS
    np.testing.assert_allclose(total, np.maximum(given_columns["num"], 0.0), rtol=1e-9, atol=1e-6)
    assert all((part >= -1e-9).all() for part in found.values())


def one(**changes: float) -> dict[str, float]:
    """Return the kinds of one bucket in which 10 GPUs were there for 100 s."""
    values = {"num": 1_000.0, **dict.fromkeys(NAMES[1:], 0.0), **changes}
    return {
        kind: part.item() for kind, part in gpu_seconds(**{name: np.array([v]) for name, v in values.items()}).items()
    }


def test_what_is_consistent_is_taken_as_it_is() -> None:
    """8 held of 10, of which 6 are in use at 80 %, one starts and one idles; 1 is broken, 1 is free."""
    found = one(broken=100, allocated=800, busy=600, used=480, reconfigure=100, lost=0)

    assert found == pytest.approx(
        {
            "useful": 480, "stalled": 120, "reconfigure": 100, "lost": 0,
            "idle": 100, "unknown": 0, "fragmented": 0, "free": 100, "drained": 0, "broken": 100,
        }
    )  # fmt: skip


def test_what_is_not_known_is_not_idle() -> None:
    """8 held of 10, of which 3 are in use and 4 on a server that does not report; one of these starts a job."""
    found = one(allocated=800, busy=300, unknown=400, used=300, reconfigure=200)

    assert (found["useful"], found["reconfigure"], found["unknown"], found["idle"]) == (300, 200, 300, 0)


def test_what_is_drained_is_not_free() -> None:
    """6 held of 10, 3 on a drained server: one is free. Jobs on a drained server count as held until they leave."""
    found = one(allocated=600, busy=600, used=600, drained=300, fragmented_frac=1.0)

    assert (found["drained"], found["free"], found["fragmented"]) == (300, 0, 100)


def test_lost_work_is_not_useful() -> None:
    """It was computed, and is computed again."""
    found = one(allocated=1_000, busy=1_000, used=1_000, lost=250)

    assert (found["lost"], found["useful"]) == (250, 750)


def test_free_counts_as_fragmented_while_somebody_waits_for_as_many() -> None:
    """For the part of the time in which a round said so."""
    found = one(allocated=600, busy=600, used=600, fragmented_frac=0.25)

    assert (found["fragmented"], found["free"]) == (100, 300)


def test_overlap_conserves_what_lies_within() -> None:
    """Over buckets of any width; what is outside, or ends before it begins, is left out."""
    begin, end, gpus = (
        np.array([0.0, 5.0, 95.0, 50.0]),
        np.array([10.0, 35.0, 200.0, 40.0]),
        np.array([1.0, 2.0, 4.0, 8.0]),
    )
    found = overlap_gpu_s(begin, end, gpus, edges_s=np.array([0.0, 10.0, 30.0, 100.0]))

    assert found.tolist() == [10 + 2 * 5, 2 * 20, 2 * 5 + 4 * 5]
