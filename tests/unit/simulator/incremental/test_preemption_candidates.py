"""Running jobs in order: weakest first with present keys, however old the keys are that they stand there with."""

import random
from collections.abc import Sequence

import pytest

from scheduler.core.model.tables import NO_ROW
from scheduler.core.packing.free_gpus import FreeGpus, Topology
from scheduler.simulator.incremental.walks.preemption_candidates import Key, PreemptionCandidates


def _weakest_first(candidates: PreemptionCandidates, stronger: Key) -> list[int]:
    """Return all that are weaker, in the order in which a walk comes to them, without taking any out."""
    while candidates.more(stronger):
        pass
    return [key[3] for key in candidates.order if key > stronger]


@pytest.mark.parametrize("seed", range(20))
def test_jobs_come_weakest_first_by_their_present_keys(seed: int) -> None:
    """Keys fall by different amounts, jobs leave and enter between walks: each walk sees the order of its moment."""
    chance = random.Random(seed)
    candidates, keys = PreemptionCandidates(), {row: float(chance.randint(0, 400)) for row in range(120)}
    for row, key in keys.items():
        candidates.enter((key, 0.0, float(row % 7), row))
    for _ in range(10):
        for row in keys:
            keys[row] -= chance.choice([0.0, 0.0, 1.0, 50.0])
        gone = chance.sample(sorted(keys), 3)
        for row in gone:
            candidates.leave(row)
            del keys[row]
        asks: Key = (float(chance.randint(-100, 400)), 0.0, 3.0, NO_ROW)

        def present(rows: Sequence[int], keys: dict[int, float] = keys) -> list[float]:
            return [keys[row] for row in rows]

        candidates.begin(present)
        seen = _weakest_first(candidates, asks)
        expected = sorted(((key, 0.0, float(row % 7), row) for row, key in keys.items()), reverse=True)

        assert seen == [key[3] for key in expected if key > asks]
        assert candidates.weakest(asks) == (seen[0] if seen else NO_ROW)
        if seen:
            keys.pop(seen[0])
            candidates.drop(seen[0])
        candidates.end()


@pytest.mark.parametrize("seed", range(20))
def test_keys_below_a_ceiling_may_rise(seed: int) -> None:
    """Keys change inside their tiers, and jobs are moved to another tier: each walk sees the order of its moment."""
    chance = random.Random(seed)
    tiers = ((0.0, 0.2, 0.5), (1.0, 1.25), (2.0,))
    candidates = PreemptionCandidates({key: max(tier) for tier in tiers for key in tier})
    keys = {row: chance.choice(chance.choice(tiers)) for row in range(60)}
    for row, key in keys.items():
        candidates.enter((key, 0.0, float(row % 7), row))
    for _ in range(10):
        for row in keys:
            tier = chance.choice(tiers) if chance.random() < 0.1 else tiers[int(keys[row])]
            keys[row] = chance.choice(tier)
            candidates.move(row, keys[row])
            keys[row] = chance.choice(tier)  # inside a tier no call is needed
        asks: Key = (chance.choice([-1.0, 0.2, 1.0]), 0.0, 3.0, NO_ROW)
        candidates.begin(lambda rows: [keys[row] for row in rows])
        seen = _weakest_first(candidates, asks)
        expected = sorted(((key, 0.0, float(row % 7), row) for row, key in keys.items()), reverse=True)

        assert seen == [key[3] for key in expected if key > asks]
        assert candidates.weakest(asks) == (seen[0] if seen else NO_ROW)
        if seen:
            assert candidates.drop(seen[0])[0] == keys.pop(seen[0])
        candidates.end()


def test_moved_jobs_stand_elsewhere() -> None:
    """Where keys do not change by themselves, only moves change the order."""
    candidates = PreemptionCandidates({0.0: 0.0, 1.0: 1.0, 2.0: 2.0, 9.0: 9.0})
    for row in range(3):
        candidates.enter((float(row), 0.0, 0.0, row))
    candidates.move(0, 9.0)
    candidates.begin(lambda rows: [0.0 for _ in rows])

    assert _weakest_first(candidates, (-1.0, 0.0, 0.0, NO_ROW)) == [0, 2, 1]


def test_a_space_with_more_is_as_if_it_had_been_given() -> None:
    """The copy finds the same servers, and the original is as before."""
    space = FreeGpus([0, 3, 5], Topology(gpus=[8, 8, 8], rack=[0, 0, 0]))
    more = space.with_more({0: 6, 2: 3})

    assert (more.free, more.total) == ([6, 3, 8], 17)
    assert [more.best_fit(gpus) for gpus in (1, 4, 7, 9)] == [1, 0, 2, NO_ROW]
    assert (space.free, space.total, space.best_fit(6)) == ([0, 3, 5], 8, NO_ROW)
