"""The columns that a round reads say of each job what its rows say, one by one."""

import math
from datetime import datetime, timedelta
from random import Random
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.core.model.lifecycle import JobState
from scheduler.core.operations.time_left import time_left_s
from scheduler.live.rounds.barred import barred_read
from scheduler.live.rounds.job_columns import seconds_of
from scheduler.live.rounds.snapshot import snapshot_read
from scheduler.models import Attempt, Job, Lease
from scheduler.services.cluster.settings import cluster_row
from tests.support.live.world import World
from tests.support.rows.factories import server_make


def by_definition(job: Job, *, now: datetime) -> dict[str, Any]:
    """Return the columns of a job, read from its rows as ``JobTable`` describes them."""
    lease = Lease.objects.filter(attempt__job=job, closed_at=None, num_gpus__gte=1).select_related("attempt").first()
    held_s = max(0.0, (now - lease.opened_at).total_seconds()) if lease else 0.0
    attained_gpu_s = max(0.0, job.attained_gpu_s - job.promoted_gpu_s) + held_s * (lease.num_gpus if lease else 0)
    resources = job.spec["resources"]
    told = lease and job.progress_at and job.progress_at > lease.opened_at
    done = job.step if lease else job.checkpoint_step
    cpus = resources["cpus"] if isinstance(resources["cpus"], int | float) else 0.0
    return {
        "job_id": job.number,
        "num_gpus": job.num_gpus,
        "arrival_s": job.submitted_at.timestamp(),
        "priority": float(job.priority),
        "preemptible": job.preemptible,
        "attained_gpu_s": attained_gpu_s,
        "executed_s": attained_gpu_s / job.num_gpus,
        "waited_s": 0.0 if lease else max(0.0, (now - job.state_changed_at).total_seconds()),
        "first_start_s": job.first_started_at.timestamp() if job.first_started_at else math.inf,
        "remaining_s": time_left_s(step=done, total_steps=job.total_steps, steps_per_s=job.steps_per_s),
        "min_cpus": cpus,
        "running": lease is not None,
        "held_at_s": lease.opened_at.timestamp() if lease else math.inf,
        "unsaved_s": _unsaved_s(job, lease.attempt, now=now) if lease else 0.0,
        "owner": job.owner_id,
        "weight": job.weight,
        "rate": job.steps_per_s if told and job.steps_per_s is not None else math.nan,
        "min_gpus": resources["min_gpus"] or job.num_gpus,
        "max_gpus": resources["max_gpus"] or job.num_gpus,
    }


def _unsaved_s(job: Job, attempt: Attempt, *, now: datetime) -> float:
    if attempt.started_at is None:
        return 0.0
    saved = job.checkpoint_at if job.checkpoint_attempt_id == attempt.pk else None
    return max(0.0, (now - (saved or attempt.started_at)).total_seconds())


def test_columns_are_what_the_rows_say(world: World) -> None:
    """Jobs of several kinds that wait, run, have run and are saved, with odd numbers."""
    rng = Random(3)
    for number in range(3):
        world.server(f"server-{number}", slots=3)
    kinds: tuple[dict[str, Any], ...] = (
        {"resources": {"gpus": 1}},
        {"resources": {"gpus": 2, "cpus": 2, "memory": "1GiB"}},
        {"resources": {"gpus": 1, "cpus": 0.5}, "schedule": {"priority": 90}},
        {"resources": {"gpus": 1}, "progress": {"total_steps": 900}},
    )
    jobs = [world.submit(**rng.choice(kinds)) for _ in range(14)]
    world.pass_time(5)
    for agent in world.agents.values():
        for attempt in list(agent.attempts.values())[:1]:
            agent.checkpoint(attempt.wanted.job_id)
    world.pass_time(3)
    for job in rng.sample(jobs, k=6):
        at = world.clock.now() - timedelta(microseconds=rng.randrange(10**9))
        told = {"steps_per_s": rng.choice([0.5, 1e-9, 2.0, 0.0]), "total_steps": rng.choice([900, 2**53, 0, None])}
        more = {"attained_gpu_s": 500.0, "promoted_gpu_s": rng.choice([0.0, 100.0, 900.0]), "checkpoint_step": 7}
        Job.objects.filter(pk=job.pk).update(progress_at=at, weight=2.0, submitted_at=at, **told, **more)
    world.clock.advance(10.0)
    now = world.clock.now()

    live = snapshot_read(cluster_row(), at=now)
    table = live.tables.jobs
    states = set()
    for row, pk in enumerate(live.job_pks):
        job = Job.objects.get(pk=pk)
        states.add(job.state)
        for name, expected in by_definition(job, now=now).items():
            assert getattr(table, name)[row] == pytest.approx(expected, rel=1e-12, abs=1e-6, nan_ok=True), (pk, name)

    assert len(live.job_pks) == len(jobs)
    assert states == {JobState.RUNNING, JobState.QUEUED}


def test_moments_are_read_to_the_microsecond(db: None) -> None:
    """With and without a fraction, as the database keeps them or as Python has them."""
    moments = [datetime.fromisoformat(f"2026-11-24T03:00:00{part}+00:00") for part in (".000001", "", ".999999")]
    texts = [str(moment.replace(tzinfo=None)) for moment in moments]

    assert seconds_of([*moments, None], unknown=-1.0).tolist() == [*(one.timestamp() for one in moments), -1.0]
    assert seconds_of([None, *texts], unknown=-1.0).tolist() == [-1.0, *(one.timestamp() for one in moments)]


def test_round_asks_as_often_for_many_servers_as_for_one(db: None) -> None:
    """Servers that keep nothing apart take the jobs of one queue each, which is read for all together."""
    counts = []
    for servers in (1, 6):
        for _ in range(servers):
            server_make(isolation="none", may_mix_queues=False)
        with CaptureQueriesContext(connection) as seen:
            barred_read()
        counts.append(len(seen))

    assert counts[0] == counts[1]


def test_round_in_which_nothing_moves_reads_no_gpus(world: World) -> None:
    """What is free, and which GPUs who holds, is looked at only where something may start or change."""
    world.server("server-0", slots=1)
    world.submit()
    world.submit()
    world.pass_time(3)
    with CaptureQueriesContext(connection) as seen:
        world.round()

    assert not [query["sql"] for query in seen if "cpu_ids" in query["sql"]]
    assert Job.objects.filter(state=JobState.QUEUED).count() == 1
