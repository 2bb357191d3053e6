"""Estimates of starts hold on a replayed workload: what really happens lies where they say."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from scheduler.choices import build_config
from scheduler.core.model.tables import FloatArray
from scheduler.simulator.draws import Draws
from scheduler.simulator.forecasts.futures import Submitted, coming_jobs, outlook, quantile
from scheduler.simulator.forecasts.run_times import LEAST_ENDED, Ended, RunTimes
from scheduler.simulator.replay.engine import simulate
from scheduler.simulator.replay.replay import Replay
from scheduler.simulator.state.outcome import Outcome
from scheduler.simulator.traces import open_trace
from tests.support.simulator.estimates_replay import (
    DAY_S,
    QUEUES,
    SERVERS,
    bounds_said,
    look,
    state_at,
    told,
    waits_of,
    workload,
)
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of


@pytest.mark.parametrize("policy", ["fifo", "las"])
def test_nine_in_ten_starts_come_by_the_time_that_was_said(policy: str, tmp_path: Path) -> None:
    """On a replayed workload p90 covers at least 85 % of all starts, and p50 is no wild guess."""
    jobs = [
        replace(job, queue=0, max_servers=1)
        for job in open_trace("generate:philly?jobs=700&gpus=32&load=1.0&seed=5").jobs
    ]
    config = build_config(policy=policy, mechanism="proportional")
    truth = simulate(Replay(jobs, SERVERS, QUEUES, config, keep_stays=True))
    assert truth.stays is not None
    last_s = jobs[-1].arrival_s
    by_p50: list[bool] = []
    by_p90: list[bool] = []
    for at_s in np.linspace(0.3, 0.95, 8) * last_s:
        snapshot, columns = state_at(float(at_s), jobs, config, tmp_path / "state.npz")
        seen = look(snapshot, columns, config)
        rows = snapshot.jobs.job_id[seen.rows]
        for row, starts_s in zip(rows.tolist(), seen.starts_s, strict=True):
            own = truth.stays.begin_s[(truth.stays.job == row) & (truth.stays.begin_s > snapshot.now_s)]
            took_s = float(own.min()) - snapshot.now_s
            by_p50.append(took_s <= quantile(starts_s, 0.5))
            by_p90.append(took_s <= quantile(starts_s, 0.9))

    assert len(by_p90) >= 50
    assert np.mean(by_p90) >= 0.85
    assert 0.3 <= np.mean(by_p50) <= 0.9


@pytest.mark.long
@pytest.mark.parametrize("policy", ["fifo", "las"])
def test_nine_in_ten_starts_of_philly_come_by_the_time_that_was_said(policy: str, tmp_path: Path) -> None:
    """Of two real weeks in which no job tells its length, every 15th wait: stretched by what became of the others."""
    jobs = workload("2017-10-17", "2017-10-31")
    config = build_config(policy=policy, mechanism="proportional")
    waits = waits_of(jobs, config)[::15]
    every = list(told(jobs, waits, config, tmp_path / "state.npz"))
    in_time = np.array([one.took_s for one in every]) <= bounds_said(every)
    judged = np.array([one.at_s for one in every]) >= jobs[0].arrival_s + 7 * DAY_S

    assert np.count_nonzero(judged) >= 50
    assert np.mean(in_time[judged]) >= 0.85


def test_nothing_is_said_where_nothing_is_known() -> None:
    """A job that tells no run time, in a cluster in which none has ended, leaves everything open."""
    running = JobRow(num_gpus=8, seats=((0, 8),))
    snapshot = snapshot_of([running, JobRow(num_gpus=4)], [ServerRow()])
    none = Ended(queue=np.zeros(0, np.int64), owner=np.zeros(0, np.int64), run_s=np.zeros(0))

    seen = outlook(
        snapshot, build_config(policy="fifo"), owner=snapshot.jobs.owner, ended=none, submitted=None,
        futures=5, horizon_s=DAY_S,
    )  # fmt: skip

    assert seen.unknown
    assert seen.futures == 0


def test_a_job_starts_when_the_one_before_it_ends() -> None:
    """With a reported rate the estimate lies around the end of the running job."""
    running = JobRow(num_gpus=8, seats=((0, 8),), remaining_s=1_000.0)
    snapshot = snapshot_of([running, JobRow(num_gpus=4, remaining_s=50.0)], [ServerRow()])
    none = Ended(queue=np.zeros(0, np.int64), owner=np.zeros(0, np.int64), run_s=np.zeros(0))

    seen = outlook(
        snapshot, build_config(policy="fifo"), owner=snapshot.jobs.owner, ended=none, submitted=None,
        futures=40, horizon_s=DAY_S,
    )  # fmt: skip

    assert seen.rows.tolist() == [1]
    assert 800 < quantile(seen.starts_s[0], 0.5) < 1_200
    assert quantile(seen.starts_s[0], 0.5) < quantile(seen.starts_s[0], 0.9) < 1_500


@pytest.mark.parametrize(
    ("bounds", "least", "most"),
    [
        ({"cpu_s": 0.05}, 1, 9_999),
        ({"enough": 10_000, "cpu_s": 0.0, "most_cpu_s": 0.05}, 1, 9_999),
        ({"enough": 8, "cpu_s": 0.0}, 8, 8),
    ],
)
def test_too_little_time_ends_the_futures_early(bounds: dict[str, Any], least: int, most: int) -> None:
    """The bounds hold, the first only once there are enough; what was found until then is kept."""
    running = [JobRow(num_gpus=1, seats=((0, 1),), remaining_s=1e5)]
    snapshot = snapshot_of([*running, *[JobRow(num_gpus=8, remaining_s=1e4)] * 3], [ServerRow()])
    none = Ended(queue=np.zeros(0, np.int64), owner=np.zeros(0, np.int64), run_s=np.zeros(0))

    seen = outlook(
        snapshot, build_config(policy="fifo"), owner=snapshot.jobs.owner, ended=none, submitted=None,
        futures=10_000, horizon_s=7 * DAY_S, **bounds,
    )  # fmt: skip

    assert seen.cut
    assert least <= seen.futures <= most


@pytest.mark.parametrize("policy", ["fifo", "las"])
def test_looking_only_as_far_as_needed_tells_the_same(policy: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Futures that end when everybody has started say of these starts what whole ones say."""
    running = [JobRow(num_gpus=1, seats=((0, 1),), remaining_s=40.0 * (row + 1)) for row in range(8)]
    snapshot = snapshot_of([*running, *[JobRow(num_gpus=2, remaining_s=30.0)] * 4], [ServerRow()])
    none = Ended(queue=np.zeros(0, np.int64), owner=np.zeros(0, np.int64), run_s=np.zeros(0))
    ended = Ended(queue=np.zeros(9, np.int64), owner=np.zeros(9, np.int64), run_s=np.full(9, 60.0))
    zeros = np.zeros(20, np.int64)
    two = zeros + 2
    lately = Submitted(
        over_s=2_000.0, queue=zeros, owner=zeros, num_gpus=two, max_servers=zeros + 1, min_gpus=two, max_gpus=two
    )

    def seen(ended: Ended, submitted: Submitted | None) -> FloatArray:
        found = outlook(
            snapshot, build_config(policy=policy), owner=snapshot.jobs.owner, ended=ended, submitted=submitted,
            futures=5, horizon_s=7 * DAY_S,
        )  # fmt: skip
        return found.starts_s

    short = [seen(none, None), seen(ended, lately)]

    def whole(task: Replay, *, progress: Callable[[int, int], None]) -> Outcome:
        assert task.until_started
        return simulate(replace(task, until_started=()), progress=progress)

    monkeypatch.setattr("scheduler.simulator.forecasts.futures.simulate", whole)

    assert np.array_equal(short, [seen(none, None), seen(ended, lately)])
    assert np.isfinite(short).all()


def test_a_future_job_asks_for_what_the_job_asked_that_it_is_made_like() -> None:
    """With one server at most, a job wider than a server would never run, and estimates would be too early."""
    lately = Submitted(
        over_s=2_000.0,
        queue=np.zeros(2, np.int64),
        owner=np.zeros(2, np.int64),
        num_gpus=np.array([16, 4]),
        max_servers=np.array([2, 1]),
        min_gpus=np.array([16, 2]),
        max_gpus=np.array([16, 8]),
    )

    coming = coming_jobs(lately, np.array([0, 1]), np.full(2, 60.0), 0.0, 1e9, Draws(0, "arrivals"))

    asked = {(job.num_gpus, job.max_servers, job.min_gpus, job.max_gpus) for job in coming}
    assert asked == {(16, 2, 16, 16), (4, 1, 2, 8)}


def test_run_times_come_from_the_narrowest_group_that_knows_enough() -> None:
    """Of the owner in the queue, else of the queue, else of all; never shorter than what a job has run already."""
    many = LEAST_ENDED
    ended = Ended(
        queue=np.array([0] * many + [0] * many + [1] * many),
        owner=np.array([1] * many + [2] * many + [3] * many),
        run_s=np.array([10.0] * many + [100.0] * many + [1_000.0] * many),
    )
    times = RunTimes(
        number=np.arange(4),
        queue=np.array([0, 0, 1, 2]),
        owner=np.array([1, 9, 9, 9]),
        run_s=np.zeros(4),
        left_s=np.full(4, np.inf),
        ended=ended,
    )
    drawn = np.stack([times.draw(Draws(seed, "test")) for seed in range(50)])

    assert set(drawn[:, 0]) == {10.0}
    assert set(drawn[:, 1]) == {10.0, 100.0}
    assert set(drawn[:, 2]) == {1_000.0}
    assert set(drawn[:, 3]) == {10.0, 100.0, 1_000.0}


def test_a_job_that_outlasts_what_is_known_runs_on() -> None:
    """Its time left is drawn from those that ran longer, and beyond them it may run many times as long."""
    ended = Ended(queue=np.zeros(40, np.int64), owner=np.zeros(40, np.int64), run_s=np.array([10.0] * 30 + [90.0] * 10))
    times = RunTimes(
        number=np.arange(2),
        queue=np.zeros(2, np.int64),
        owner=np.zeros(2, np.int64),
        run_s=np.array([50.0, 200.0]),
        left_s=np.full(2, np.inf),
        ended=ended,
    )
    drawn = np.stack([times.draw(Draws(seed, "test")) for seed in range(200)])

    assert np.median(drawn[:, 0]) == 40.0
    assert 100 < np.median(drawn[:, 1]) < 400
    assert drawn[:, 1].max() <= 200 * 20


def test_quantile_leaves_room_for_the_one_that_really_happens() -> None:
    """Of nine futures the ninth smallest covers nine in ten; with fewer nothing does."""
    nine = np.arange(1.0, 10.0)

    assert quantile(nine, 0.9) == 9.0
    assert quantile(nine[:8], 0.9) == float("inf")


def test_what_is_drawn_of_a_job_is_its_own() -> None:
    """A job keeps its chance when others come and go, in whatever row it stands, and so do jobs that ended."""
    past_s = np.array([60.0 * (1 + row % 7) for row in range(LEAST_ENDED)])

    def drawn(numbers: list[int], past_s: FloatArray = past_s) -> dict[int, float]:
        many = len(past_s)
        times = RunTimes(
            number=np.array(numbers),
            queue=np.zeros(len(numbers), np.int64),
            owner=np.zeros(len(numbers), np.int64),
            run_s=np.zeros(len(numbers)),
            left_s=np.array([600.0 if number % 2 else np.inf for number in numbers]),
            ended=Ended(queue=np.zeros(many, np.int64), owner=np.zeros(many, np.int64), run_s=past_s),
        )
        return dict(zip(numbers, times.draw(Draws(0, "test")).tolist(), strict=True))

    every = drawn([11, 12, 13, 14, 15, 16])
    few = drawn([16, 13, 12])

    assert few == {number: every[number] for number in few}
    assert every[11] != every[13]
    assert drawn([12, 14, 16], past_s[::-1]) == {number: every[number] for number in (12, 14, 16)}
