"""Suggestions are those of a seed and a history, and TPE goes where losses were low."""

import statistics

import pytest

from scheduler.core.spec.search_space import read_space
from scheduler.services.jobs.suggestions import Tried, suggest

SPACE = read_space(
    {"x": {"low": 0.0, "high": 1.0}, "kind": {"choices": ["a", "b"]}, "n": {"low": 1, "high": 9, "integer": True}}
)


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_same_seed_and_history_give_the_same_values(sampler: str) -> None:
    """And values lie in the space."""
    first = suggest(SPACE, [], sampler=sampler, seed=3, count=4)
    again = suggest(SPACE, [], sampler=sampler, seed=3, count=4)
    other = suggest(SPACE, [], sampler=sampler, seed=4, count=4)

    assert first == again != other
    assert all(0 <= float(one["x"]) <= 1 and one["kind"] in ("a", "b") and one["n"] in range(1, 10) for one in first)


def test_tpe_goes_where_losses_were_low() -> None:
    """After thirty configurations that say that small x is good."""
    tried: list[Tried] = [({"x": i / 30, "kind": "a", "n": 1}, i / 30) for i in range(30)]
    tpe = suggest(SPACE, tried, sampler="tpe", seed=1, count=10)
    random = suggest(SPACE, tried, sampler="random", seed=1, count=10)

    assert statistics.mean(float(one["x"]) for one in tpe) < 0.5 * statistics.mean(float(one["x"]) for one in random)
