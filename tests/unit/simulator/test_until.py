"""Figures of a history up to a moment."""

import numpy as np
import pytest

from scheduler.simulator.report.until import Lives, figures_of_lives

ENDED = {"avg_jct_s": 200.0, "p99_jct_s": 300.0, "avg_queueing_s": 100.0, "makespan_s": 300.0}


@pytest.mark.parametrize(
    ("until_s", "jobs", "left_out"),
    [
        (1_000.0, 1, ()),
        (300.0, 1, ("p99_jct_s", "makespan_s")),
        (300.0, 150, ("makespan_s",)),
    ],
)
def test_what_only_tells_the_moment_is_left_out(until_s: float, jobs: int, left_out: tuple[str, ...]) -> None:
    """The second of two jobs lasts until the moment, or one of many does; p99 is then that of one that ended."""
    ends = np.array([100.0] * jobs + [300.0])
    lives = Lives(
        begin_s=np.zeros(jobs + 1), end_s=ends, run_s=ends / 2.0, num_gpus=np.full(jobs + 1, 2, dtype=np.int64)
    )
    figures = figures_of_lives(lives, until_s)

    assert {*ENDED} - {*figures} == {*left_out}
    if jobs == 1:
        assert figures == {name: value for name, value in ENDED.items() if name not in left_out} | {
            "avg_allocated_gpus": pytest.approx(400.0 / 300.0)
        }
    else:
        assert figures["p99_jct_s"] == 100.0
