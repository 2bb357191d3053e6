"""Smoke runs: a gang begins on one GPU, and what fails there costs no more."""

import pytest

from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.models import Cluster, Job
from scheduler.models.job import AttemptKind
from scheduler.selectors.jobs.listing import job_explain, job_timeline
from tests.support.live.world import World


@pytest.fixture
def smoking(world: World) -> World:
    """A cluster with one server of four GPUs, where gangs begin with a smoke run of ten seconds."""
    Cluster.objects.update(smoke_run_s=10.0)
    world.server("alpha", slots=4)
    return world


def test_gang_begins_on_one_gpu_and_then_gets_all(smoking: World) -> None:
    """The smoke run passes after its time; its checkpoint is not continued; nothing of it counts as a preemption."""
    job = smoking.submit(gpus=4, resources={"gpus": 4, "cpus": 4, "memory": "4GiB"})
    smoking.until_state(job, JobState.RUNNING)
    explained = job_explain(smoking.admin, Job.objects.get(pk=job.pk), smoking.clock.now())
    [smoke] = smoking.attempts(job)
    assert (smoke.kind, smoke.num_gpus, smoke.leases.get().memory_bytes) == (AttemptKind.SMOKE, 1, 2**30)
    assert "smoke run on one GPU" in explained["sentence"]
    smoking.agent_of(job).checkpoint(job.pk)

    waited_s = smoking.until(lambda: len(smoking.attempts(job)) == 2)
    smoking.until_state(job, JobState.RUNNING)

    smoke, full = smoking.attempts(job)
    assert waited_s <= 14
    assert smoke.end_cause == EndCause.SMOKE_PASSED
    assert (full.kind, full.num_gpus, full.resume_step) == (AttemptKind.FULL, 4, None)
    row = Job.objects.get(pk=job.pk)
    assert (row.smoke_due, row.failures, row.preemptions) == (False, 0, 0)
    assert [entry["receipt"] for entry in job_timeline(row, smoking.clock.now()) if entry["kind"] == "attempt"] == [
        None,
        None,
    ]


def test_failure_in_the_smoke_run_costs_one_gpu(smoking: World) -> None:
    """What shows at the start ends the job before its gang is held."""
    job = smoking.submit(gpus=4)
    smoking.until_state(job, JobState.RUNNING)
    agent = smoking.agent_of(job)
    agent.attempt_of(job.pk).extra = {"failure": "gpu_oom", "failure_line": "CUDA out of memory."}
    agent.end(job.pk, cause="exit_code", exit_code=1, detail="The command ended with exit code 1.")
    smoking.until_state(job, JobState.FAILED)

    row = Job.objects.get(pk=job.pk)
    assert "smoke run on one GPU: too little GPU memory (CUDA out of memory)." in row.end_detail
    assert row.attained_gpu_s < 10
    assert len(smoking.attempts(job)) == 1


def test_jobs_of_one_gpu_and_waiting_ones_say_what_comes(smoking: World) -> None:
    """One GPU needs no smoke run; a gang that waits for one says so."""
    for _ in range(4):
        smoking.submit()
    smoking.pass_time(2)
    gang = smoking.submit(gpus=4)
    smoking.rounds()

    checks = job_explain(smoking.admin, Job.objects.get(pk=gang.pk), smoking.clock.now())["checks"]
    assert all(attempt.kind == AttemptKind.FULL for job in Job.objects.all() for attempt in smoking.attempts(job))
    assert {"name": "Smoke run", "ok": True, "text": "runs 10 s on one GPU first, then on 4"} in checks
