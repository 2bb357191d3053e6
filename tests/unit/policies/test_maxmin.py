"""Max-min shares."""

from dataclasses import replace

import pytest

from scheduler.policies.maxmin import Maxmin
from tests.support.oracle.cases import Case
from tests.support.oracle.shares import by_start, jobs_of
from tests.support.simulator.elastic import elastic_job
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of


def plain_shares(case: Case, num_gpus: int) -> list[int]:
    """Deal GPUs one by one, in turn, first started first."""
    given = [0] * len(case.jobs)
    hungry = sorted(jobs_of(case), key=by_start)
    while num_gpus and hungry:
        for job in hungry[:num_gpus]:
            given[job.at] += 1
        num_gpus -= min(num_gpus, len(hungry))
        hungry = [job for job in hungry if given[job.at] < job.most]
    return given


SHARES = plain_shares  # an independent oracle compares it with the policy on random clusters


@pytest.mark.parametrize(
    ("most", "gpus", "shares"),
    [
        ([8, 8, 8], 8, [3, 3, 2]),
        ([1, 8, 8], 8, [1, 4, 3]),
        ([1, 2, 3], 8, [1, 2, 3]),
        ([4, 4, 4], 2, [1, 1, 0]),
        ([4, 4, 4], 0, [0, 0, 0]),
    ],
)
def test_one_gpu_at_a_time_round_robin(most: list[int], gpus: int, shares: list[int]) -> None:
    """First come first served inside a turn, none above what it can use."""
    jobs = [elastic_job(work_s=1.0, max_gpus=count, arrival_s=float(at)) for at, count in enumerate(most)]

    assert Maxmin().shares(snapshot_of(jobs, [ServerRow()]), gpus).tolist() == shares


def test_whoever_started_first_goes_first() -> None:
    """A job that started earlier is served before one that was submitted earlier."""
    jobs = [elastic_job(work_s=1.0, max_gpus=2), replace(elastic_job(work_s=1.0, max_gpus=2), first_start_s=5.0)]

    assert Maxmin().shares(snapshot_of(jobs, [ServerRow()]), 1).tolist() == [0, 1]


def test_rigid_jobs_count_as_all_or_nothing() -> None:
    """A gang of 4 takes 4 of 8; the elastic one the rest."""
    jobs = [JobRow(num_gpus=4), elastic_job(work_s=1.0, max_gpus=8)]

    assert Maxmin().shares(snapshot_of(jobs, [ServerRow()]), 8).tolist() == [4, 4]
    assert Maxmin().shares(snapshot_of(jobs, [ServerRow()]), 3).tolist() == [0, 3]
