"""Changes that start a waiting job sooner, not now: simulated beside the job as it is, and only then told."""

from datetime import datetime, timedelta

import pytest
from django.core.cache import cache

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Cluster, Job
from scheduler.selectors.times import iso
from scheduler.services.cluster.settings import cluster_row
from scheduler.whatif.one_job.unblock import job_unblockers
from tests.support.rows.factories import AT, job_make, member_make, queue_make, server_make

pytestmark = pytest.mark.django_db
NOW = AT + timedelta(hours=1)


def waiting(*left_s: int) -> Job:
    """Return a job for 4 GPUs behind others that share the 4 there are and have so many seconds to go."""
    cache.clear()
    cluster_row()
    Cluster.objects.update(policy="fifo", policy_options={})
    server, queue = server_make("gpu-01", gpus=4), queue_make("vision", quota_gpus=4)
    owner = member_make(queue)
    for steps in left_s:
        job_make(
            queue, state=JobState.RUNNING, owner=owner, server=server, num_gpus=4 // len(left_s),
            step=0, total_steps=steps, steps_per_s=1.0,
        )  # fmt: skip
    return job_make(queue, owner=owner, num_gpus=4, step=0, total_steps=100, steps_per_s=1.0)


def test_fewer_gpus_start_sooner_where_one_job_ends_long_before_the_other() -> None:
    """Two of the four are free in about ten minutes, all four in about two hours; the offer says both in numbers."""
    job = waiting(600, 7_200)
    offers = {offer["key"]: offer for offer in job_unblockers(job.owner, job, NOW)}
    found = offers["gpus"]

    assert {offer["starts"] for offer in offers.values()} == {"sooner"}
    assert found["change"]["gpus"] <= 2
    assert found["preempts"] == []
    assert (found["sooner_s"] or 0.0) > 3_600
    assert found["p50_at"] is not None
    assert iso(NOW) < found["p50_at"]
    assert datetime.fromisoformat(found["p50_at"]) < NOW + timedelta(seconds=3_600)
    assert "In half of 12 simulated futures it starts within" in found["sentence"]


def test_what_would_not_start_it_clearly_sooner_is_not_offered() -> None:
    """One job holds all there is: with fewer GPUs it would wait as long."""
    job = waiting(600)

    assert job_unblockers(job.owner, job, NOW) == []
