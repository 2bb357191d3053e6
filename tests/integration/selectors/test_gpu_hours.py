"""The GPU-hours of a real history: samples, leases and rounds agree on where they went."""

from datetime import timedelta

import pytest
from django.contrib.auth.models import AnonymousUser

from scheduler.core.model.lifecycle import JobState
from scheduler.core.operations.gpu_hours import KINDS
from scheduler.models import Attempt, Lease
from scheduler.selectors.cluster.gpu_hours import gpu_hours
from tests.support.rows.factories import AT, job_make, queue_make, round_make, sample_make, server_make, user_make

pytestmark = pytest.mark.django_db
HOUR = timedelta(hours=1)


def test_an_hour_is_told_apart() -> None:
    """4 GPUs; one job holds 2 of them: 6 min to start, 12 min lost at the end; somebody waits for a better place."""
    server, queue = server_make(gpus=4), queue_make()
    for minute in range(60):
        sample_make(
            "cluster", 1, AT + timedelta(minutes=minute), resolution_s=60,
            num_gpus=4, allocated_gpus=2, busy_gpus=2, used_gpus=1.5, broken_gpus=1,
        )  # fmt: skip
    job = job_make(queue, state=JobState.FAILED, num_gpus=2, server=server, at=AT - HOUR)
    Lease.objects.filter(attempt__job=job).update(opened_at=AT, closed_at=AT + HOUR)
    Attempt.objects.filter(job=job).update(started_at=AT + timedelta(minutes=6), ended_at=AT + HOUR, lost_s=720.0)
    round_make(1, started_at=AT, decisions={"waiting_by_reason": {"fragmentation": 1}})
    round_make(2, started_at=AT + HOUR / 4, decisions={"same_as": 1})
    round_make(3, started_at=AT + HOUR / 2, decisions={"waiting_by_reason": {"group_quota": 2}})

    found = gpu_hours(user_make(), since=AT, until=AT + HOUR, points=12)

    assert found["capacity"] == pytest.approx(4.0)
    assert sum(found["totals"].values()) == pytest.approx(found["capacity"], rel=0.01)
    running = 2.0 - 0.2 - 0.4
    assert found["totals"] == pytest.approx(
        {
            "useful": running * 0.75, "stalled": running * 0.25, "reconfigure": 0.2, "lost": 0.4,
            "idle": 0.0, "unknown": 0.0, "fragmented": 0.5, "free": 0.5, "drained": 0.0, "broken": 1.0,
        },
        abs=0.01,
    )  # fmt: skip
    assert all(len(found["kinds"][kind]) == len(found["at"]) for kind in KINDS)


def test_leased_gpus_are_never_free_however_few_samples_there_are() -> None:
    """One sample an hour fell between two jobs; a lease says that 2 of 4 GPUs were held for half of that hour."""
    server, queue = server_make(gpus=4), queue_make()
    sample_make("cluster", 1, AT, resolution_s=3_600, num_gpus=4, allocated_gpus=0, busy_gpus=0, broken_gpus=0)
    job = job_make(queue, state=JobState.COMPLETED, num_gpus=2, server=server, at=AT - HOUR)
    Lease.objects.filter(attempt__job=job).update(opened_at=AT, closed_at=AT + HOUR / 2)
    Attempt.objects.filter(job=job).update(started_at=AT, ended_at=AT + HOUR / 2)

    totals = gpu_hours(user_make(), since=AT, until=AT + HOUR, points=1)["totals"]

    assert totals["free"] == pytest.approx(3.0)
    assert sum(totals.values()) == pytest.approx(4.0)


def test_drained_capacity_is_a_kind_of_its_own() -> None:
    """It is neither free nor broken."""
    for minute in range(60):
        sample_make(
            "cluster", 1, AT + timedelta(minutes=minute), resolution_s=60,
            num_gpus=16, allocated_gpus=8, busy_gpus=8, used_gpus=8, drained_gpus=8, broken_gpus=0,
        )  # fmt: skip

    totals = gpu_hours(user_make(), since=AT, until=AT + HOUR, points=12)["totals"]

    assert totals["drained"] == totals["useful"] == pytest.approx(8.0)
    assert totals["free"] == 0.0


def test_times_without_a_sample_are_left_out_and_a_short_window_has_fewer_parts() -> None:
    """A part is as long as it is, whether or not the next one was measured: 4 GPUs stay 4."""
    for second in (0, 1, 7, 20):
        sample_make("cluster", 1, AT + timedelta(seconds=second), num_gpus=4, allocated_gpus=4, busy_gpus=4)

    found = gpu_hours(user_make(), since=AT, until=AT + timedelta(seconds=30), points=48)

    assert found["part_s"] == 1.0
    assert len(found["at"]) == 4
    assert [value * 3_600 / found["part_s"] for value in found["kinds"]["useful"]] == pytest.approx([4.0] * 4, rel=0.01)
    assert sum(found["totals"].values()) == pytest.approx(found["capacity"], rel=0.01)


def test_nothing_measured_and_nobody_signed_in() -> None:
    """No hour is made up."""
    found = gpu_hours(user_make(), since=AT, until=AT + HOUR)
    stranger = gpu_hours(AnonymousUser(), since=AT, until=AT + HOUR)

    assert found["capacity"] == 0
    assert stranger["totals"] == {}
