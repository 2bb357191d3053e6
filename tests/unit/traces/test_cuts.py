"""Cutting and stretching a trace, its quotas, and jobs that can never run."""

import math
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from scheduler.core.model.tables import NO_ROW
from scheduler.simulator.jobs import SimJob
from scheduler.simulator.traces.trace import (
    TooWide,
    Trace,
    at_load,
    first_jobs,
    offered_load,
    parse_window,
    trace_queue_table,
    wider_than,
    window,
)


def trace(*jobs: SimJob) -> Trace:
    """Return a trace of these jobs."""
    return Trace(format="csv", source="here", jobs=list(jobs))


def at(arrival_s: float, *, gpus: int = 1, run_s: float = 100.0, queue: int = 0) -> SimJob:
    """Return a job."""
    return SimJob(arrival_s=arrival_s, num_gpus=gpus, run_s=run_s, queue=queue)


def test_offered_load_is_work_over_capacity_while_jobs_arrive() -> None:
    """Three jobs of 2 GPUs and 100 s, one every 50 s: 4 GPUs busy; on 8 GPUs a load of 0.5."""
    jobs = [at(0, gpus=2), at(50, gpus=2), at(100, gpus=2)]

    assert offered_load(jobs, cluster_gpus=8) == pytest.approx(0.5)
    assert offered_load([], cluster_gpus=8) == 0.0
    assert offered_load([at(5), at(5)], cluster_gpus=8) == math.inf


def test_stretching_sets_the_load_and_forgets_dates() -> None:
    """Half the load is twice the time between jobs; what was done is a warning."""
    dated = replace(trace(at(10, gpus=2), at(60, gpus=2), at(110, gpus=2)), starts_at=datetime(2020, 1, 1, tzinfo=UTC))

    stretched = at_load(dated, load=0.25, cluster_gpus=8)

    assert [job.arrival_s for job in stretched.jobs] == [10.0, 110.0, 210.0]
    assert stretched.starts_at is None
    assert stretched.warnings == ("arrivals stretched by 2 for an offered load of 0.25 (it was 0.5)",)


@pytest.mark.parametrize("load", [0.0, -1.0, math.nan, math.inf])
def test_a_load_is_a_positive_number(load: float) -> None:
    """Nothing else can be set."""
    with pytest.raises(ValueError, match="positive number"):
        at_load(trace(at(0), at(1)), load=load, cluster_gpus=8)


@pytest.mark.parametrize("jobs", [[], [at(3)], [at(3), at(3)]])
def test_jobs_that_span_no_time_have_no_load(jobs: list[SimJob]) -> None:
    """There is nothing to stretch."""
    with pytest.raises(ValueError, match="one after another"):
        at_load(trace(*jobs), load=0.5, cluster_gpus=8)


def test_a_window_is_half_open_and_times_stay() -> None:
    """The job at its end is not in it."""
    parts = window(trace(at(0), at(10), at(20), at(30)), from_s=10, to_s=30)

    assert [job.arrival_s for job in parts.jobs] == [10.0, 20.0]
    assert [job.arrival_s for job in first_jobs(parts, num_jobs=1).jobs] == [10.0]
    assert len(first_jobs(parts, num_jobs=9).jobs) == 2


@pytest.mark.parametrize(
    ("text", "ends"),
    [
        ("100:200", (100.0, 200.0)),
        (":200.5", (-math.inf, 200.5)),
        ("1e3:", (1000.0, math.inf)),
        (":", (-math.inf, math.inf)),
        ("2017-10-04:2017-10-05", (86_400.0, 172_800.0)),
        ("2017-10-03T01:00:2017-10-03T02:30:15", (3600.0, 9015.0)),
        ("2017-10-03T02:00+01:00:7200", (3600.0, 7200.0)),
        ("60:2017-10-04", (60.0, 86_400.0)),
    ],
)
def test_a_window_takes_seconds_and_dates(text: str, ends: tuple[float, float]) -> None:
    """Times of day hold colons too."""
    assert parse_window(text, starts_at=datetime(2017, 10, 3, tzinfo=UTC)) == ends


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("200:100", "is empty"),
        ("5:5", "is empty"),
        ("100", "a window is A:B"),
        ("monday:tuesday", "a window is A:B"),
        ("2017-10-04:", "gives no dates"),
        ("nan:5", "a window is A:B"),
    ],
)
def test_a_window_that_cannot_be_is_refused(text: str, says: str) -> None:
    """Empty, not two ends, dates where the trace has none."""
    with pytest.raises(ValueError, match=says):
        parse_window(text, starts_at=None)


def test_jobs_wider_than_the_cluster_are_named() -> None:
    """An elastic job counts with the least it needs."""
    elastic = SimJob(arrival_s=2, num_gpus=64, run_s=1, min_gpus=1)

    assert wider_than([at(0, gpus=8), at(1, gpus=16), elastic], cluster_gpus=8) == [TooWide(job=1, num_gpus=16)]


def test_quotas_follow_the_work_of_the_queues() -> None:
    """700 and 300 GPU-seconds on 10 GPUs are 7 and 3; each queue may borrow all."""
    table = trace_queue_table(replace(trace(at(0, gpus=7), at(1, gpus=3, queue=1)), queues=("a", "b")), cluster_gpus=10)

    assert table.quota_gpus.tolist() == [7, 3]
    assert table.parent.tolist() == [NO_ROW, NO_ROW]
    assert (table.max_gpus > 10).all()
    assert table.may_borrow.all()


def test_a_lone_queue_has_no_quota() -> None:
    """Whether the trace knows one or not: it may hold the whole cluster, and no gang is stepped over for its quota."""
    for quotas in (None, (8,)):
        table = trace_queue_table(replace(trace(at(0)), quotas=quotas), cluster_gpus=8)

        assert (table.quota_gpus.tolist(), table.may_borrow.tolist()) == ([0], [True])


def test_quotas_that_are_known_are_kept_and_fill_the_cluster() -> None:
    """3, 1 and 1 of 5 on 8 GPUs: the remainder goes where most was cut off."""
    table = trace_queue_table(replace(trace(at(0)), queues=("a", "b", "c"), quotas=(3, 1, 1)), cluster_gpus=8)

    assert table.quota_gpus.tolist() == [5, 2, 1]
