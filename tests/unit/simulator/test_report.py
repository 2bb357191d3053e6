"""Curves of a report: thinned by the stated rules, never invented."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.plan import WaitReason
from scheduler.core.model.tables import NO_ROW
from scheduler.simulator.replay.summary import summarize
from scheduler.simulator.report.curves import (
    CURVE_POINTS,
    INTERVALS,
    MOST_BARS,
    course,
    curve,
    gantt,
    room_share,
    waits_by_gang,
)
from scheduler.simulator.report.figures import Figures
from scheduler.simulator.report.leftover import WORDS
from scheduler.simulator.report.narrowed import narrowed
from scheduler.simulator.state.outcome import Outcome, Stays
from tests.support.simulator.outcomes import outcome_of, records_of, series_of, stays_of


@given(st.lists(st.floats(0, 1e9), max_size=400))
def test_a_curve_holds_only_values_that_there_are(values: list[float]) -> None:
    """Points are values at their true share; first and last are kept; infinite ones do not count."""
    found = curve(np.array([*values, np.inf, np.nan]))

    assert len(found.value) == min(CURVE_POINTS, len(values))
    assert set(found.value.tolist()) <= set(values)
    if values:
        assert (found.value[0], found.value[-1], found.share[-1]) == (min(values), max(values), 1.0)
        for value, share in zip(found.value.tolist(), found.share.tolist(), strict=True):
            below, upto = sum(v < value for v in values), sum(v <= value for v in values)
            assert below < round(share * len(values)) <= upto


def test_waits_go_by_powers_of_two() -> None:
    """Sizes 1, 2, 3, 4, 8 make the groups 1, 2, 3-4 and 8; unfinished jobs do not count."""
    records = records_of(
        num_gpus=[1, 2, 3, 4, 8, 8], queueing_s=[1.0, 2, 3, 4, 5, 99], end_s=[10.0, 10, 10, 10, 10, np.inf]
    )
    found = waits_by_gang(records)

    assert [(gang.label, gang.jobs, gang.p50_s, gang.p90_s) for gang in found] == [
        ("1", 1, 1.0, 1.0),
        ("2", 1, 2.0, 2.0),
        ("3-4", 2, 3.0, 4.0),
        ("8", 1, 5.0, 5.0),
    ]


def figures_with(quotas: list[int]) -> Figures:
    """Return figures of queues with these quotas, and of no job."""
    none = curve(np.array([]))
    outcome = outcome_of(records_of(num_gpus=[1], queueing_s=[0.0], end_s=[1.0]), num_gpus=16)
    return Figures(
        summary=summarize(outcome), jct=none, rho=none, gangs=(), course=None, room_share=0.0, gantt=None,
        bar_names=(), bar_queues=(), bar_gpus=(), server_gpus=(16,),
        queue_names=[f"queue {row}" for row in range(len(quotas))], queue_quotas=quotas,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("quotas", "parents", "own", "others"),
    [
        ([8, 5, 3, 4], [NO_ROW, 0, 0, NO_ROW], [3], 8),  # the quota of a parent holds those of its leaves
        ([8, 0, 3, 4], [NO_ROW, 0, 0, NO_ROW], [3], 8),  # a leaf without a quota adds nothing
        ([0, 5, 3, 4], [NO_ROW, 0, 0, NO_ROW], [3], 8),  # nor does a parent without one
        ([8, 5, 3, 4], [NO_ROW, 0, 0, NO_ROW], [2], 9),  # a leaf of the lead counts in the lead's own quota alone
        ([12, 8, 5, 3, 4], [NO_ROW, 0, 1, 1, 0], [1, 2, 3], 4),
        ([8, 5, 3, 4], [NO_ROW, 0, 0, NO_ROW], [0, 1, 2], 4),
    ],
)
def test_each_gpu_of_other_queues_is_guaranteed_once(
    quotas: list[int], parents: list[int], own: list[int], others: int
) -> None:
    """What a lead sees of all queues that are not the lead's is one quota, and no GPU counts twice in it."""
    found = narrowed(figures_with(quotas), own, parents)

    assert list(found.queue_quotas) == [*(quotas[row] for row in own), others]


def test_use_of_a_cluster_that_goes_on_is_that_of_its_course() -> None:
    """Two jobs run for an hour already, and 30 s more: 3 of 4 GPUs are allocated, as drawn, not a few of the hour."""
    records = records_of(
        num_gpus=[3, 1], queueing_s=[0.0, 0.0], end_s=[20.0, 30.0], arrival_s=np.array([-3_600.0, -3_600.0]),
        service_gpu_s=np.array([60.0, 30.0]), useful_gpu_s=np.array([60.0, 30.0]),
    )  # fmt: skip
    series = series_of(at_s=np.array([0.0, 20.0, 30.0]), allocated_gpus=np.array([4.0, 1.0, 0.0]))
    outcome = replace(outcome_of(records, num_gpus=4, series=series), is_continued=True)
    found = summarize(outcome)

    assert found["avg_gpu_occupancy"] == pytest.approx(course(series).allocated.mean() / 4)
    assert found["avg_gpu_occupancy"] == found["avg_useful_gpu"] == pytest.approx(90 / 120)


@given(st.lists(st.tuples(st.floats(0.01, 100), st.integers(0, 64)), min_size=2, max_size=60))
def test_a_course_keeps_the_gpu_time(steps: list[tuple[float, int]]) -> None:
    """The mean over the intervals is that of the step function, however it is thinned."""
    at_s = np.cumsum([gap for gap, _ in steps])
    held = np.array([float(gpus) for _, gpus in steps])
    found = course(series_of(at_s=at_s, allocated_gpus=held))
    exact = float((held[:-1] * np.diff(at_s)).sum())

    assert len(found.at_s) == INTERVALS
    np.testing.assert_allclose(found.allocated.sum() * found.step_s, exact, rtol=1e-6, atol=1e-6)
    assert found.allocated.max() <= held.max() + 1e-9


def test_a_course_of_one_moment_is_one_interval() -> None:
    """Nothing to divide by."""
    found = course(series_of(at_s=np.array([5.0]), allocated_gpus=np.array([3.0])))

    assert len(found.at_s) == 1


def test_room_is_a_share_of_time() -> None:
    """A block of 8 for 1 s of 4 s."""
    series = series_of(
        at_s=np.array([0.0, 1, 4]), allocated_gpus=np.array([0.0, 1, 0]), largest_free_gpus=np.array([8, 7, 8])
    )

    assert room_share(series, 8) == 0.25


def bars_overlap(outcome: Outcome, stays: Stays, gpus: list[int]) -> bool:
    """Return whether two bars of one server share a lane at the same time."""
    bars = gantt(outcome, stays, gpus, num_servers=len(gpus)).bars
    return any(
        a.server == b.server
        and max(a.lane, b.lane) < min(a.lane + a.height, b.lane + b.height)
        and max(a.begin_s, b.begin_s) < min(a.end_s, b.end_s)
        for index, a in enumerate(bars)
        for b in bars[:index]
    )


def test_bars_lie_beside_each_other_and_leave_no_gpu_out() -> None:
    """Three jobs on a server of four GPUs, the last on what the first left: its lanes need not be neighbours."""
    stays = stays_of([(0, 0, 1, 0.0, 5.0), (1, 0, 2, 0.0, 9.0), (2, 0, 1, 0.0, 5.0), (3, 0, 2, 5.0, 9.0)])
    outcome = outcome_of(records_of(num_gpus=[1, 2, 1, 2], queueing_s=[0.0] * 4, end_s=[5.0, 9, 5, 9]), num_gpus=4)
    drawn = gantt(outcome, stays, [4], num_servers=3)

    assert drawn.num_servers == 1
    assert not drawn.cut
    assert not bars_overlap(outcome, stays, [4])
    assert sum(bar.height for bar in drawn.bars if bar.job == 3) == 2


def test_a_long_gantt_is_cut_at_a_moment() -> None:
    """Everything until then is drawn, nothing after; servers that are not shown do not count."""
    rows = [(0, 0, 1, float(i), float(i + 1)) for i in range(MOST_BARS + 50)] + [(0, 5, 1, 0.0, 1.0)]
    outcome = outcome_of(records_of(num_gpus=[1], queueing_s=[0.0], end_s=[2000.0]), num_gpus=1)
    drawn = gantt(outcome, stays_of(rows), [1] * 6, num_servers=4)

    assert drawn.cut
    assert len(drawn.bars) == MOST_BARS
    assert drawn.until_s == MOST_BARS
    assert {bar.server for bar in drawn.bars} == {0}


def test_each_reason_that_a_replay_can_give_has_words() -> None:
    """In a replay no user suspends a job, no admin pauses, no environment is built, and no round is late."""
    live_alone = {"preparing_environment", "held", "policy_paused", "scheduler_stale"}

    assert set(WaitReason) - WORDS.keys() == live_alone
