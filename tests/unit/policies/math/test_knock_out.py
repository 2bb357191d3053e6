"""The knock-out of AFS against the plain loop of the paper, on random jobs."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.core.model.tables import FloatArray
from scheduler.core.performance.curves import Curves, SpeedTable
from scheduler.policies.math.knock_out import KnockOutRule, knock_out


def plain_loop(
    speed: list[list[float]], lengths: list[float], gpus: list[int], most: list[int], spare: int, *, rule: KnockOutRule
) -> list[int]:
    """The published loop, job by job; a job that gains nothing leaves the pool. Steps that are equal on paper tie."""
    gpus = list(gpus)
    pool = [row for row in range(len(gpus)) if gpus[row] < most[row]]

    def length(row: int) -> float:
        return lengths[row] / speed[row][gpus[row]] if rule.shrinking else lengths[row]

    def gain(row: int) -> float:
        now, more = speed[row][gpus[row]], speed[row][gpus[row] + 1]
        return round((more - now) / more, 12)

    def rise(row: int) -> float:
        now, more = speed[row][gpus[row]], speed[row][gpus[row] + 1]
        return round((more - now) / now, 12)

    while spare and pool:
        champion = pool[0]
        for other in pool[1:]:
            if rule.ties_to_later:
                beats_as_shorter = rise(other) > gain(champion) and length(other) < length(champion)
                if rise(champion) <= gain(other) or beats_as_shorter:
                    champion = other
            else:
                shorter, longer = (other, champion) if length(other) < length(champion) else (champion, other)
                champion = longer if gain(longer) > rise(shorter) else shorter
        if speed[champion][gpus[champion] + 1] <= speed[champion][gpus[champion]]:
            pool.remove(champion)
            continue
        gpus[champion] += 1
        spare -= 1
        if gpus[champion] == most[champion]:
            pool.remove(champion)
    return gpus


@st.composite
def curve(draw: st.DrawFn) -> list[float]:
    """Speeds with 0 .. 18 GPUs: linear, concave, with a plateau, or with a peak."""
    kind = draw(st.sampled_from(["linear", "concave", "steps", "peak"]))
    alpha = draw(st.floats(0.01, 0.35))
    counts = range(19)
    if kind == "linear":
        speeds = [float(count) for count in counts]
    elif kind == "concave":
        speeds = [count / (1 + alpha * (count - 1)) for count in counts]
    elif kind == "steps":
        speeds = [float(count - count // 3) for count in counts]
    else:
        speeds = [count / (1 + alpha * (count - 1) ** 2) for count in counts]
    return list(np.maximum.accumulate(speeds))


@example(  # a rise of a half on both curves, which floats tell apart
    curves=[[count / (1 + (count - 1) / 3) for count in range(19)], [float(count) for count in range(19)]],
    jobs=[(0, 1.0, 1, 2), (1, 1.0, 1, 4)],
    spare=5,
    shrinking=False,
)
@given(
    curves=st.lists(curve(), min_size=1, max_size=4),
    jobs=st.lists(
        st.tuples(
            st.integers(0, 3),
            st.sampled_from([1.0, 2.0, 5.0, 60.0, 61.0, 500.0, float("inf")]),
            st.integers(1, 4),
            st.integers(0, 12),
        ),
        min_size=1,
        max_size=14,
    ),
    spare=st.integers(0, 60),
    shrinking=st.booleans(),
)
def test_the_knock_out_is_that_of_the_plain_loop(
    curves: list[list[float]], jobs: list[tuple[int, float, int, int]], spare: int, shrinking: bool
) -> None:
    """Searching for the next job that wins gives what meeting one after another gives."""
    rows = [number % len(curves) for number, _, _, _ in jobs]
    lengths = [length for _, length, _, _ in jobs]
    gpus = [count for _, _, count, _ in jobs]
    most = [count + more for _, _, count, more in jobs]
    rule = KnockOutRule(shrinking=shrinking, ties_to_later=not shrinking)

    found = knock_out(
        Curves(row=np.array(rows), table=SpeedTable.of(np.array(curves)), work_s=np.array(lengths)),
        rule,
        lengths=np.array(lengths),
        pool=np.arange(len(jobs)),
        gpus=np.array(gpus),
        most=np.array(most),
        spare=spare,
    )

    expected = plain_loop([curves[row] for row in rows], lengths, gpus, most, spare, rule=rule)
    assert found.tolist() == expected


@pytest.mark.parametrize("num_curves", [3, 90])
@pytest.mark.parametrize("shrinking", [True, False])
def test_many_jobs_meet_as_in_the_plain_loop(*, num_curves: int, shrinking: bool) -> None:
    """A large pool, where the search tells jobs apart only roughly at first: alike, tied, and one curve each."""
    rng = np.random.default_rng(num_curves)
    counts = np.arange(18.0)
    costs = rng.uniform(0.01, 0.35, num_curves)
    curves = [(counts / (1 + cost * np.maximum(counts - 1, 0))).tolist() for cost in costs]
    rows = (np.arange(90) % num_curves).tolist()
    lengths = rng.choice([10.0, 50.0, 51.0, 400.0, float("inf")], 90).tolist()
    most = rng.choice([2, 2, 4, 8, 16], 90).tolist()
    rule = KnockOutRule(shrinking=shrinking, ties_to_later=not shrinking)

    found = knock_out(
        Curves(row=np.array(rows), table=SpeedTable.of(np.array(curves)), work_s=np.array(lengths)),
        rule,
        lengths=np.array(lengths),
        pool=np.arange(90),
        gpus=np.ones(90, dtype=np.int64),
        most=np.array(most),
        spare=250,
    )

    assert found.tolist() == plain_loop([curves[row] for row in rows], lengths, [1] * 90, most, 250, rule=rule)


# Speeds measured with 1, 2, 4, 8 and 16 GPUs, straight in between: gains fall at these counts, and steps between two of
# them tie. The last one rises faster again beyond 8.
MODELS = [
    (1.0, 1.82, 3.05, 4.3, 4.9),
    (1.0, 1.92, 3.4, 6.1, 9.9),
    (1.0, 1.73, 2.7, 3.1, 3.2),
    (1.0, 1.43, 1.7, 1.8, 1.8),
    (1.0, 1.60, 2.6, 2.9, 5.8),
]


@pytest.mark.parametrize("spare", [12, 60, 95, 130, 165, 220])
@pytest.mark.parametrize("shrinking", [True, False])
@pytest.mark.parametrize("models", [MODELS[:1], MODELS[:3], MODELS, MODELS[4:], MODELS[2::2]])
def test_steps_that_all_win_outright_are_taken_before_the_others(
    *, spare: int, shrinking: bool, models: list[tuple[float, ...]]
) -> None:
    """Jobs of a few models: whole stretches are won whichever is the shorter, and only the rest is played out."""
    rng = np.random.default_rng(spare + len(models))
    curves = [np.interp(range(18), (0, 1, 2, 4, 8, 16), (0.0, *speeds)).tolist() for speeds in models]
    rows = rng.integers(0, len(models), 40).tolist()
    lengths = rng.choice([10.0, 50.0, 51.0, 70.0, 90.0, 400.0, 800.0], 40).tolist()
    gpus = rng.choice([1, 1, 1, 2, 3], 40)
    most = gpus + rng.choice([1, 1, 3, 7, 14], 40)
    rule = KnockOutRule(shrinking=shrinking, ties_to_later=not shrinking)

    found = knock_out(
        Curves(row=np.array(rows), table=SpeedTable.of(np.array(curves)), work_s=np.array(lengths)),
        rule,
        lengths=np.array(lengths),
        pool=np.arange(40),
        gpus=gpus,
        most=most,
        spare=spare,
    )

    expected = plain_loop([curves[row] for row in rows], lengths, gpus.tolist(), most.tolist(), spare, rule=rule)
    assert found.tolist() == expected


@pytest.mark.parametrize(
    ("longer_next", "to_longer", "sums"),
    [(16.0, False, (72.321, 72.5)), (18.0, True, (65.873, 65.556)), (50 / 3, False, (70.0, 70.0))],
)
def test_the_rule_gives_the_smaller_sum_of_completion_times(
    longer_next: float, to_longer: bool, sums: tuple[float, float]
) -> None:
    """AFS example 1: a goes from 10 to 14, b (longer) from 10 to 16, 18 or 50/3; works 100 and 1000."""
    short: FloatArray = np.array([0.0, 10.0, 14.0])
    long: FloatArray = np.array([0.0, 10.0, longer_next])
    curves = Curves(
        row=np.array([0, 1]), table=SpeedTable.of(np.stack((short, long))), work_s=np.array([100.0, 1000.0])
    )

    gpus = knock_out(
        curves,
        KnockOutRule(shrinking=True, ties_to_later=False),
        lengths=curves.work_s,
        pool=np.arange(2),
        gpus=np.array([1, 1]),
        most=np.array([2, 2]),
        spare=1,
    )

    give_short = 2 * (100 / 14) + (1000 - 10 * 100 / 14) / longer_next
    give_long = 2 * (100 / 10) + (1000 - longer_next * 100 / 10) / longer_next
    assert (round(give_short, 3), round(give_long, 3)) == sums
    assert gpus.tolist() == ([1, 2] if to_longer else [2, 1])


def test_shares_grow_with_the_cluster() -> None:
    """With one more GPU no job gets less, for curves that are all alike."""
    speed = np.array([[count / (1 + 0.1 * (count - 1)) if count else 0.0 for count in range(20)]])
    lengths = np.array([50.0, 20.0, 90.0, 10.0])
    curves = Curves(row=np.zeros(4, dtype=np.int64), table=SpeedTable.of(speed), work_s=lengths)
    given_gpus = [
        knock_out(
            curves,
            KnockOutRule(shrinking=True, ties_to_later=False),
            lengths=lengths,
            pool=np.arange(4),
            gpus=np.ones(4, dtype=np.int64),
            most=np.full(4, 16),
            spare=spare,
        )
        for spare in range(40)
    ]

    assert all((more >= less).all() for less, more in pairwise(given_gpus))
