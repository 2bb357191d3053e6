"""The Gittins index of services of past jobs, by its two costs and by the best quantum."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.policies.math.gittins import Denominator, best_index, gittins_index, index_table

# Tiresias example A.
SERVICES = np.array([4.0, 8.0, 12.0])
ATTAINED = np.array([0.0, 4.0, 8.0])


def test_index_with_what_is_still_needed_rises() -> None:
    """Tiresias example A, quantum 4, remaining service below the line: 1/12, 1/8, 1/4."""
    index = gittins_index(ATTAINED, SERVICES, np.array([4.0]), denominator="remaining")

    assert index.tolist() == pytest.approx([1 / 12, 1 / 8, 1 / 4])


def test_index_over_the_best_quantum() -> None:
    """Tiresias example A, supremum over quanta: 1/8, 1/6, 1/4."""
    assert best_index(ATTAINED, SERVICES, denominator="remaining").tolist() == pytest.approx([1 / 8, 1 / 6, 1 / 4])


def test_index_with_what_will_have_been_given_drops_first() -> None:
    """Tiresias example A, quantum 4, total service below the line: 1/12, 1/16, 1/12."""
    index = gittins_index(ATTAINED, SERVICES, np.array([4.0]), denominator="total")

    assert index.tolist() == pytest.approx([1 / 12, 1 / 16, 1 / 12])


def test_beyond_all_history_the_index_is_zero() -> None:
    """A job that has had more than any past job goes last."""
    beyond = np.array([12.0, 100.0])

    assert gittins_index(beyond, SERVICES, np.array([4.0]), denominator="remaining").tolist() == [0, 0]
    assert best_index(beyond, SERVICES, denominator="total").tolist() == [0, 0]


samples_gpu_s = st.lists(st.integers(1, 40).map(float), min_size=1, max_size=12)


@given(
    samples_gpu_s, st.integers(0, 45).map(float), st.integers(1, 30).map(float), st.sampled_from(["remaining", "total"])
)
def test_sums_agree_with_the_definition(
    history: list[float], attained: float, quantum: float, denominator: Denominator
) -> None:
    """P(S - a <= d | S > a) over the mean of min(S - a, d), or of min(S, a + d), sample by sample."""
    longer = [sample for sample in history if sample > attained]
    chance = sum(sample <= attained + quantum for sample in longer)
    start = attained if denominator == "remaining" else 0.0
    cost = sum(min(sample, attained + quantum) - start for sample in longer)
    index = gittins_index(
        np.array([attained]), np.sort(np.array(history)), np.array([quantum]), denominator=denominator
    )

    assert index.tolist() == pytest.approx([chance / cost if chance else 0.0])


@given(samples_gpu_s, st.integers(0, 45).map(float), st.integers(1, 60).map(float))
def test_no_quantum_beats_the_best_one(history: list[float], attained: float, quantum: float) -> None:
    """The supremum is reached at some past service."""
    a, samples = np.array([attained]), np.sort(np.array(history))

    best = best_index(a, samples, denominator="remaining")[0]
    assert gittins_index(a, samples, np.array([quantum]), denominator="remaining")[0] <= best * (1 + 1e-12)


def test_ranks_order_by_index_inside_a_level() -> None:
    """Largest index first; equal indexes share a place; the last level has one place only."""
    ranks = index_table((12.0, 4.0, 8.0), (4.0,), "total").ranks

    assert ranks[0, 0] == ranks[0, 2] < ranks[0, 1] < ranks[0, 3] < 1
    assert ranks[1].tolist() == [0, 0, 0, 0]
