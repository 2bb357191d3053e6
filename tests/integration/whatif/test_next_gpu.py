"""Who would get the next free GPU, told beside an elastic job that runs."""

from datetime import timedelta

import pytest

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Cluster, Job, Profile, Queue
from scheduler.models.queue import Role
from scheduler.services.cluster.settings import cluster_row
from scheduler.whatif.one_job.next_gpu import next_gpu
from tests.support.rows.factories import AT, job_make, member_make, queue_make, server_make

pytestmark = pytest.mark.django_db
NOW = AT + timedelta(hours=1)


def elastic(queue: Queue, steps: int, server_gpus: int = 2) -> Job:
    """Return a running job on so many of a full server's GPUs that could use four, with so many steps to go."""
    server = server_make(gpus=server_gpus)
    job = job_make(
        queue, state=JobState.RUNNING, server=server, num_gpus=server_gpus, step=0, total_steps=steps, steps_per_s=1.0
    )
    resources = {**job.spec["resources"], "min_gpus": 1, "max_gpus": 4, "max_servers": 2}
    Job.objects.filter(pk=job.pk).update(spec={**job.spec, "resources": resources})
    job.refresh_from_db()
    return job


def policy(name: str) -> None:
    """Let a policy decide."""
    cluster_row()
    Cluster.objects.update(policy=name, policy_options={})


def test_shorter_job_wins_where_both_gain_alike() -> None:
    """Nothing is known of their scaling, so that both gain the same; a reader of one queue reads one name."""
    policy("afs-l")
    vision, speech = queue_make("vision", quota_gpus=2), queue_make("speech", quota_gpus=2)
    short, long = elastic(vision, 100), elastic(speech, 100_000)
    reader = member_make(vision, Role.MEMBER)

    found = next_gpu(reader, short, NOW)

    assert found is not None
    own, other = found["rows"]
    assert (own["is_own"], own["num_gpus"], own["gain_frac"], own["loss_frac"]) == (True, 2, 0.5, 0.5)
    assert own["number"] == short.number
    assert (other["number"], other["name"], other["queue"]) == (None, "another job", "another queue")
    assert found["winner"] == own
    assert found["why"] == "shortness"
    assert long.number != short.number


def test_gain_is_that_of_the_measured_curve() -> None:
    """The job whose speed was measured gains little, so that the next GPU goes to the one taken to scale linearly."""
    policy("afs-l")
    vision = queue_make("vision", quota_gpus=4)
    flat, linear = elastic(vision, 1_000), elastic(vision, 1_000)
    curve = Profile.objects.create(fingerprint="auto-flat", scaling=[[1, 1.0], [2, 1.5], [3, 1.65], [4, 1.7]])
    Job.objects.filter(pk=flat.pk).update(profile=curve)
    flat.refresh_from_db()

    found = next_gpu(member_make(vision, Role.MEMBER), flat, NOW)

    assert found is not None
    own, other = found["rows"]
    assert (own["is_measured"], other["is_measured"]) == (True, False)
    assert own["gain_frac"] == pytest.approx(0.1)
    assert own["loss_frac"] == pytest.approx(1 / 3)
    assert other["gain_frac"] == 0.5
    assert found["winner"] is not None
    assert found["winner"]["number"] == linear.number
    assert found["why"] == "efficiency"


def test_nothing_is_told_where_gpus_are_not_shared_out() -> None:
    """Neither under a policy with fixed gangs, nor of a rigid job."""
    policy("fifo")
    queue = queue_make("vision", quota_gpus=4)
    job = elastic(queue, 100)
    rigid = job_make(queue, state=JobState.RUNNING, server=server_make(gpus=1))
    reader = member_make(queue, Role.MEMBER)

    assert next_gpu(reader, job, NOW) is None
    policy("afs-l")
    assert next_gpu(reader, rigid, NOW) is None
