"""Figures as people and programs read them."""

import json
import math

import pytest

from scheduler.simulator.replay.summary import summarize
from scheduler.simulator.report.summary_text import as_json, mean_of, table, time_unit
from scheduler.simulator.state.outcome import Summary
from scheduler.simulator.study.arms import Arm
from scheduler.simulator.study.study import Result
from tests.support.simulator.outcomes import outcome_of, records_of


def result(policy: str, jct_s: float, *, seed: int = 0) -> Result:
    """One job that took so long."""
    outcome = outcome_of(records_of(num_gpus=[1], queueing_s=[0.0], end_s=[jct_s]), num_gpus=1)
    arm = Arm(policy=policy, locality="any", mechanism="tune")
    return Result(arm=arm, seed=seed, outcome=outcome, summary=summarize(outcome))


def test_the_best_of_a_line_has_a_star() -> None:
    """Short times win; what is alike for all has none; one unit a line."""
    lines = table([result("fifo", 9000.0), result("srtf", 7200.0)]).splitlines()
    cells = {line[:13].strip(): line[13:].split() for line in lines}

    assert cells["avg JCT (h)"] == ["2.50", "2.00*"]
    assert cells["preempted"] == ["0", "0"]


def test_a_single_arm_has_no_star() -> None:
    """There is nothing to compare."""
    assert "*" not in table([result("fifo", 9000.0)])


def test_means_over_seeds_have_half_widths() -> None:
    """Student's t: 1, 2 and 3 give 2 with 4.303 / sqrt(3); one value has none."""
    found = mean_of([1.0, 2.0, 3.0])

    assert found.mean == 2.0
    assert found.half_width == pytest.approx(4.303 / math.sqrt(3))
    assert mean_of([5.0]).half_width == 0.0
    assert "±" in table([result("fifo", 100.0, seed=1), result("fifo", 110.0, seed=2)])


def test_json_of_one_run_is_flat_and_of_several_a_list() -> None:
    """Seeds add their means; what has no value is null."""
    one = as_json([result("fifo", 10.0)], {"trace": "t"})
    several = as_json([result("fifo", 10.0), result("srtf", math.inf)], {"trace": "t"})
    seeded = as_json([result("fifo", 10.0, seed=1), result("fifo", 30.0, seed=2)], {})

    assert (one["trace"], one["arm"], one["avg_jct_s"]) == ("t", "fifo:any+tune", 10.0)
    assert set(Summary.__annotations__) <= set(one)
    arms = several["arms"]
    assert isinstance(arms, list)
    assert [run["unfinished"] for run in arms] == [0, 1]
    means = seeded["means"]
    assert isinstance(means, list)
    assert means[0]["avg_jct_s"]["mean"] == 20.0
    for whole in (one, several, seeded):
        json.dumps(whole, allow_nan=False)


def test_a_unit_fits_the_longest_time() -> None:
    """Two of it at least, whatever the others are."""
    assert time_unit([0.5, math.inf]) == ("s", 1.0)
    assert time_unit([1.0, 7200.0]) == ("h", 3600.0)
    assert time_unit([]) == ("s", 1.0)
