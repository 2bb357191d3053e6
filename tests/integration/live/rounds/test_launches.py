"""A round that starts many jobs writes what as many small rounds write, by a few statements."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Attempt, Cluster, Event, GangMember, Job, Lease, Measurement, Queue
from scheduler.services.jobs.cancel_suspend_resume import job_cancel
from scheduler.services.jobs.state import Move, jobs_transition
from tests.support.live.world import World

AUTO = {"command": ["python", "auto.py"]}
JOBS: tuple[dict[str, Any], ...] = (
    {"resources": {"gpus": 1, "cpus": 1, "memory": "1GiB"}},
    {"resources": {"gpus": 1}, **AUTO},
    {"resources": {"gpus": 1}, **AUTO},  # equal to the one before: one of them is measured
    {"resources": {"gpus": 2}, "files": {"train.py": "print()"}},
    {"resources": {"gpus": 3, "max_servers": 2, "cpus": 3}},  # a gang
    {"resources": {"gpus": 2, "min_gpus": 1, "max_gpus": 2, "cpus": 2}},  # an elastic one
    {"resources": {"gpus": 1, "cpus": 0.5}},
)
LEFT_OUT = {"round", "server_generation"}


def cluster(world: World) -> None:
    """Make two servers on which all of them fit, and a policy that keeps to the order of submission."""
    world.settings(policy="fifo", mechanism="proportional", locality="any")
    Queue.objects.update(quota_gpus=100)
    world.server("alpha", slots=8)
    world.server("beta", slots=8)


def written() -> list[Any]:
    """Return the rows of all jobs as they are, without ids and numbers of rounds."""
    found: list[Any] = []
    for job in Job.objects.order_by("submitted_at", "number"):
        events = Event.objects.filter(job=job).order_by("number")
        told = [(one.number, one.kind, one.old_state, one.new_state, one.reason, one.actor) for one in events]
        numbers = [{key: value for key, value in one.data.items() if key not in LEFT_OUT} for one in events]
        columns = [job.state, job.event_count, job.wait_reason, job.wait_since, job.wait_position, job.wait_evidence]
        columns += [job.queueing_s, job.retry_after, job.idle_since, job.state_changed_at, job.profile_id is None]
        [attempt] = Attempt.objects.filter(job=job).order_by("number")
        run = [attempt.number, attempt.state, attempt.kind, attempt.num_gpus, attempt.epoch, attempt.wanted]
        run += [attempt.created_at, attempt.resume_name, attempt.resume_step, attempt.is_lent]
        leases = [
            (one.server.name, one.num_gpus, one.cpus, len(one.cpu_ids), one.memory_bytes, one.opened_at, one.closed_at)
            for one in Lease.objects.filter(attempt=attempt).order_by("server__name")
        ]
        held = sorted(attempt.leases.values_list("server__name", "gpus__slot", "gpus__released_at"))
        members = GangMember.objects.filter(gang=attempt.pk).order_by("number")
        gang = [(one.number, one.pk == attempt.pk, one.gpu.server.name, one.version) for one in members]
        measured = Measurement.objects.filter(attempt=attempt).count()
        found.append([told, numbers, columns, run, leases, held, gang, measured])
    return found


def test_one_large_round_writes_what_small_rounds_write(world: World) -> None:
    """Jobs, events, attempts, leases, GPUs, gangs and measurements are equal row by row."""
    cluster(world)
    for job in JOBS:
        world.submit(**{"gpus": 1, **job})
        world.rounds()
    small = written()
    generations = dict(Lease.objects.values_list("server__generation", "server__name"))
    for row in Job.objects.all():
        world.do(lambda job=row: job_cancel(actor=world.admin, job=job, at=world.clock.now()))  # type: ignore[misc]
    world.pass_time(5)
    first = Job.objects.count()
    measured = Measurement.objects.filter(attempt__ended_at=None).count()
    for job in JOBS:
        world.submit(**{"gpus": 1, **job})
    world.rounds()
    rows = written()

    assert measured == 0
    assert generations
    large = rows[first:]
    shift = (
        Job.objects.filter(number__gt=first).earliest("number").submitted_at
        - Job.objects.earliest("number").submitted_at
    )
    assert _moved(large, shift) == small


def _moved(rows: Any, shift: Any) -> Any:
    """Return rows with their times moved back."""
    if isinstance(rows, list | tuple):
        return type(rows)(_moved(one, shift) for one in rows)
    return rows - shift if hasattr(rows, "tzinfo") else rows


def test_statements_do_not_grow_with_the_jobs_that_start(world: World) -> None:
    """Thirty starts take as many as three."""
    Queue.objects.update(quota_gpus=100)
    world.settings(mechanism="proportional")
    world.server("alpha", slots=40)
    counts = []
    for jobs in (3, 30):
        for _ in range(jobs):
            world.submit(resources={"gpus": 1, "cpus": 1})
        with CaptureQueriesContext(connection) as asked:
            world.rounds()
        counts.append(len(asked))
        world.pass_time(3)

    assert Job.objects.filter(state=JobState.RUNNING).count() == 33
    assert counts[1] <= counts[0] + 2


def test_job_that_changed_meanwhile_is_not_moved_with_the_others(world: World) -> None:
    """One that its owner cancelled since it was read stays cancelled; the others move, each with its event."""
    jobs = [world.submit() for _ in range(3)]
    read = list(Job.objects.order_by("number"))
    world.do(lambda: job_cancel(actor=world.admin, job=jobs[1], at=world.clock.now()))
    moves = [Move(job=job, to=JobState.LAUNCHING, data={"round": 1}) for job in read]
    moved = jobs_transition(moves=moves, at=world.clock.now(), actor="scheduler", reason="granted")

    assert [job.number for job in moved] == [jobs[0].number, jobs[2].number]
    assert [world.state(job) for job in jobs] == [JobState.LAUNCHING, JobState.CANCELLED, JobState.LAUNCHING]
    for job in moved:
        stored = Job.objects.get(pk=job.pk)
        assert Event.objects.filter(job=job).count() == stored.event_count == job.event_count
        assert (stored.wait_reason, stored.wait_since) == ("", None)


def test_job_that_may_not_move_so_is_left_out(world: World) -> None:
    """The table of states holds for many as for one."""
    job = world.submit()
    read = Job.objects.get(pk=job.pk)
    moves = [Move(job=read, to=JobState.PREEMPTING)]

    assert jobs_transition(moves=moves, at=world.clock.now(), actor="scheduler", reason="granted") == []
    assert world.state(job) == JobState.QUEUED


def test_round_locks_the_row_of_job_numbers_at_its_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Submits take numbers from that row, so its lock is not held while a plan is written."""
    world.server("alpha")
    world.submit()
    with CaptureQueriesContext(connection) as asked:
        world.rounds()
    order = [query["sql"] for query in asked]
    claims = [at for at, sql in enumerate(order) if sql.startswith("UPDATE") and '"round_number" =' in sql]
    launches = [at for at, sql in enumerate(order) if sql.startswith('INSERT INTO "scheduler_attempt"')]

    assert Cluster.objects.get().round_number
    assert len(claims) == len(launches) == 1
    assert launches[0] < claims[0]
