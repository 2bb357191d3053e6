"""Finish-time fairness follows from the lives of jobs, and from what their neighbours got."""

from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import User
from pytest_django import DjangoAssertNumQueries

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job
from scheduler.selectors.cluster import fairness as rating
from scheduler.selectors.cluster.fairness import quantile, rho_of
from scheduler.selectors.cluster.overview import fairness
from tests.support.rows.factories import AT, job_make, queue_make, server_make, user_make

pytestmark = pytest.mark.django_db


@pytest.fixture
def admin() -> User:
    """An admin."""
    return user_make("admin", admin=True)


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([], 0.5, None), ([7.0], 0.99, 7.0), ([1.0, 2.0], 0.5, 1.0), (list(map(float, range(1, 101))), 0.99, 99.0)],
)
def test_quantile_is_a_value_that_occurred(values: list[float], share: float, expected: float | None) -> None:
    """Nearest rank: the smallest value that the share of all do not exceed."""
    assert quantile(values, share) == expected


def test_rho_compares_with_an_equal_share(admin: User) -> None:
    """Worked example: 2 GPUs, two jobs of one GPU side by side, one waited as long as it ran.

    Both lives overlap wholly, so an equal share is 1 GPU each. The first ran all its 100 s: rho 1. The second waited
    100 s of 200 s, the first being gone half of its life: 1.5 sharers on average, a share of 1.33 GPUs: rho 2.
    """
    server = server_make(gpus=2)
    first, second = queue_make("first"), queue_make("second")
    one = job_make(first, state=JobState.COMPLETED, server=server)
    two = job_make(second, state=JobState.COMPLETED, server=server)
    for job, life_s in ((one, 100.0), (two, 200.0)):
        Job.objects.filter(pk=job.pk).update(submitted_at=AT, ended_at=AT + timedelta(seconds=life_s), executed_s=100.0)
    told = fairness(admin, AT + timedelta(seconds=300))
    rho = {row["queue"]: row["rho"] for row in told["jobs"]}

    assert rho == {"first": 1.0, "second": 2.0}
    # Queues at speeds 1 and 1/2: (1.5)^2 / (2 * 1.25).
    assert told["jain_index"] == 0.9


def test_finished_job_keeps_its_rho(admin: User) -> None:
    """A month later, with others submitted since, it is what it was; what failed or waits has none."""
    server = server_make(gpus=2)
    jobs = [job_make(state=JobState.COMPLETED, server=server) for _ in range(2)]
    for job, life_s in zip(jobs, (100.0, 200.0), strict=True):
        Job.objects.filter(pk=job.pk).update(submitted_at=AT, ended_at=AT + timedelta(seconds=life_s), executed_s=100.0)
    later = AT + timedelta(days=30)
    others = [job_make(state=state, at=later) for state in (JobState.QUEUED, JobState.FAILED)]

    assert [rho_of(Job.objects.get(pk=job.pk), later) for job in jobs] == [1.0, 2.0]
    assert [rho_of(job, later) for job in others] == [None, None]
    assert fairness(admin, later)["jobs"] == []


def test_fairness_is_of_the_jobs_of_a_range(admin: User) -> None:
    """What completed in it, and what runs where it ends now; of a past one nothing that runs; of some queues alone."""
    server = server_make(gpus=9)
    first, second = queue_make("first"), queue_make("second")
    old, new = (job_make(queue, state=JobState.COMPLETED, server=server) for queue in (first, second))
    for job, ended in ((old, AT - timedelta(days=3)), (new, AT - timedelta(hours=3))):
        Job.objects.filter(pk=job.pk).update(submitted_at=ended - timedelta(hours=1), ended_at=ended, executed_s=1800.0)
    runs = job_make(first, state=JobState.RUNNING, server=server, at=AT - timedelta(hours=1))

    def rated(**range_: Any) -> set[int | None]:
        return {row["number"] for row in fairness(admin, **{"at": AT, **range_})["jobs"]}

    assert rated() == {new.number, runs.number}
    assert rated(since=AT - timedelta(days=7)) == {old.number, new.number, runs.number}
    assert rated(since=AT - timedelta(hours=1)) == {runs.number}
    assert rated(since=AT - timedelta(days=7), at=AT - timedelta(days=1), is_past=True) == {old.number}
    assert rated(since=AT - timedelta(days=7), queue_pks=[second.pk]) == {new.number}


def test_more_jobs_than_are_rated_are_told(admin: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """The newest are rated, and the answer says that there are more."""
    server = server_make(gpus=2)
    jobs = [job_make(state=JobState.COMPLETED, server=server) for _ in range(2)]
    Job.objects.update(submitted_at=AT - timedelta(hours=1), ended_at=AT, executed_s=60.0)
    whole = fairness(admin, AT)
    monkeypatch.setattr(rating, "JOBS_RATED", 1)
    cut = fairness(admin, AT)

    assert (len(whole["jobs"]), whole["is_cut"]) == (2, False)
    assert ([row["number"] for row in cut["jobs"]], cut["is_cut"]) == ([jobs[1].number], True)


def test_job_larger_than_its_share_may_take_longer(admin: User) -> None:
    """Alone on half of 2 GPUs a job of 2 GPUs would take twice its run time."""
    server = server_make(gpus=2)
    for _ in range(2):
        job = job_make(state=JobState.COMPLETED, num_gpus=2, server=server)
        Job.objects.filter(pk=job.pk).update(submitted_at=AT, ended_at=AT + timedelta(seconds=200), executed_s=100.0)

    assert [row["rho"] for row in fairness(admin, AT + timedelta(seconds=200))["jobs"]] == [1.0, 1.0]


def test_running_jobs_are_rated_by_what_they_have_so_far(admin: User) -> None:
    """A job that runs from its first second on an idle cluster is at 1."""
    job = job_make(state=JobState.RUNNING, server=server_make(gpus=2), step_s=0.0)
    told = fairness(admin, AT + timedelta(seconds=60))

    assert [(row["number"], row["rho"], row["is_finished"]) for row in told["jobs"]] == [(job.number, 1.0, False)]


def test_fairness_costs_the_same_for_any_number_of_jobs(
    admin: User, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    """A fixed number of queries."""
    server = server_make(gpus=20)
    for index in range(9):
        job_make(state=[JobState.RUNNING, JobState.COMPLETED][index % 2], server=server)
    with django_assert_max_num_queries(5):
        fairness(admin, AT + timedelta(hours=1))
