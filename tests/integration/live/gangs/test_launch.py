"""Gangs of one process a server: what each is told, how they end and go on, and that no two share a port."""

import pytest
from django.db import IntegrityError, transaction

from agents.protocol.gangs import GangHost
from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.live.engine import Engine
from scheduler.models import Cluster, Gang, Job, LeaseGpu
from tests.support.live.gangs import processes, running
from tests.support.live.ports import FakeAgent
from tests.support.live.world import World


@pytest.fixture
def servers(world: World) -> list[FakeAgent]:
    """Two servers of two slots, each with an address."""
    agents = [world.server("alpha"), world.server("beta")]
    for number, agent in enumerate(agents, start=1):
        agent.address = f"10.0.0.{number}"
    world.pass_time(1)
    return agents


def gang(world: World, *, per: str = "server", gpus: int = 3, max_servers: int = 2) -> Job:
    """Submit a gang."""
    return world.submit(resources={"gpus": gpus, "max_servers": max_servers}, launch={"per": per})


def fail(world: World, job: Job, place: int, **extra: str) -> None:
    """Let one process of a gang end with exit code 1."""
    process = processes(world, job)[place]
    process.extra = {"failure": "unclassified", "failure_line": "ChildFailedError", **extra}
    process.phase, process.cause, process.exit_code = "ended", "exit_code", 1


def test_each_server_gets_one_process_with_all_its_gpus(world: World, servers: list[FakeAgent]) -> None:
    """Two processes for three GPUs; both know all servers, and the first is on the server with the most."""
    job = gang(world)
    orders = [process.wanted for process in running(world, job)]
    places = [order.gang for order in orders]

    assert [len(agent.attempts) for agent in servers] == [1, 1]
    assert [order.gpu_indexes for order in orders] == [(0, 1), (0,)]
    assert [len(order.gpu_uuids) for order in orders] == [2, 1]
    assert [(place.rank, place.size) for place in places if place] == [(0, 2), (1, 2)]
    hosts = (GangHost(address="10.0.0.1", slots=2), GangHost(address="10.0.0.2", slots=1))
    assert {place.hosts for place in places if place} == {hosts}
    assert {place.address for place in places if place} == {"10.0.0.1"}
    assert orders[0].attempt_id == world.attempts(job)[0].pk
    assert orders[0].memory_bytes + orders[1].memory_bytes == sum(
        lease.memory_bytes for lease in world.attempts(job)[0].leases.all()
    )


def test_gang_that_fits_one_server_is_one_process(world: World, servers: list[FakeAgent]) -> None:
    """It is told that there is one server, also where it may use only one."""
    for most in (1, 2):
        job = gang(world, gpus=2, max_servers=most)
        [process] = running(world, job)

        assert process.wanted.gang is not None
        assert (process.wanted.gang.size, [host.slots for host in process.wanted.gang.hosts]) == (1, [2])
        assert process.wanted.gpu_indexes == (0, 1)


def test_rigid_job_on_one_server_may_start_for_every_gpu(world: World, servers: list[FakeAgent]) -> None:
    """Ranks need no second server."""
    job = gang(world, per="gpu", gpus=2, max_servers=1)
    orders = [process.wanted for process in running(world, job)]

    assert [order.gpu_indexes for order in orders] == [(0,), (1,)]
    assert [order.gang.rank for order in orders if order.gang] == [0, 1]


def test_spec_stored_before_starts_as_it_did(world: World, servers: list[FakeAgent]) -> None:
    """Its spec says nothing of a launch: for every GPU on several servers, else once."""
    jobs = [gang(world, per="gpu"), world.submit(gpus=1)]
    for job in jobs:
        spec = {name: part for name, part in Job.objects.get(pk=job.pk).spec.items() if name != "launch"}
        Job.objects.filter(pk=job.pk).update(spec=spec)
    wide, alone = jobs
    ranks = running(world, wide)
    world.until_state(alone, JobState.RUNNING)

    assert [process.wanted.gang.rank for process in ranks if process.wanted.gang] == [0, 1, 2]
    assert not Gang.objects.filter(attempt__job=alone).exists()


def test_every_process_resumes_from_the_checkpoint_of_the_first(world: World, servers: list[FakeAgent]) -> None:
    """None hands anything to the others for them: each is told of it."""
    job = gang(world)
    running(world, job)[0].checkpoint_step = 3
    world.pass_time(5)
    fail(world, job, 1)
    world.until(lambda: len(world.attempts(job)) == 2)
    first, second = world.attempts(job)
    resumed = {process.wanted.resume_attempt_id for process in running(world, job)}

    assert resumed == {first.pk}
    assert second.resume_step == 3


def test_one_failed_process_ends_the_gang_and_counts_once(world: World, servers: list[FakeAgent]) -> None:
    """The other complains of a lost connection first; the cause has its server's name and is counted once."""
    job = gang(world)
    running(world, job)
    for agent in servers:
        agent.stops_at_once = False
    fail(world, job, 0, failure="mpi", failure_line="Connection closed by peer")
    world.pass_time(1)
    fail(world, job, -1)
    world.pass_time(1)

    attempt = world.attempts(job)[0]
    assert (attempt.end_cause, attempt.failure) == (EndCause.EXIT_CODE, "unclassified")
    assert attempt.end_detail.endswith("(on beta)")
    assert Job.objects.get(pk=job.pk).failures == 1
    assert not LeaseGpu.objects.filter(released_at=None).exists()


def test_smoke_run_is_one_process_that_is_told_so(world: World, servers: list[FakeAgent]) -> None:
    """A script that reads its place finds one on a single GPU, too."""
    Cluster.objects.update(smoke_run_s=10.0)
    job = gang(world)
    [process] = running(world, job)

    assert process.wanted.gang is not None
    assert [host.slots for host in process.wanted.gang.hosts] == [1]


@pytest.mark.parametrize("per", ["server", "gpu"])
def test_open_gangs_never_share_a_port(world: World, per: str) -> None:
    """On one server, over a restart of the scheduler, and when a job starts again; ended ones give theirs back."""
    world.server("alpha", slots=8)
    jobs = [gang(world, per=per, gpus=2, max_servers=1) for _ in range(3)]
    for job in jobs:
        world.until_state(job, JobState.RUNNING)
    world.engine = Engine(world.ports)
    # The port that the next gang would take first is that of one that runs.
    first = Gang.objects.get(attempt__job=jobs[0])
    taken = 20_000 + ((Job.objects.get(pk=jobs[-1].pk).number + 1) * 31 + 1) % 9_000
    Gang.objects.filter(pk=first.pk).update(port=taken, held_port=taken)
    jobs.append(gang(world, per=per, gpus=2, max_servers=1))
    world.until_state(jobs[-1], JobState.RUNNING)

    ports = list(Gang.objects.filter(attempt__ended_at=None).values_list("port", flat=True))
    assert len(set(ports)) == len(ports) == 4
    assert taken in ports


def test_database_refuses_a_port_in_two_open_gangs(world: World, servers: list[FakeAgent]) -> None:
    """Whatever chooses ports: two of them cannot be open with one."""
    jobs = [gang(world, gpus=2, max_servers=1) for _ in range(2)]
    for job in jobs:
        world.until_state(job, JobState.RUNNING)
    one, other = Gang.objects.order_by("pk")

    with pytest.raises(IntegrityError), transaction.atomic():
        Gang.objects.filter(pk=one.pk).update(held_port=other.held_port)


def test_lost_server_ends_the_process_on_the_other(world: World, servers: list[FakeAgent]) -> None:
    """As for ranks of a GPU each."""
    job = gang(world)
    running(world, job)
    del world.agents["beta"]
    world.until(lambda: world.attempts(job)[0].ended_at is not None)

    assert world.attempts(job)[0].end_cause == EndCause.SERVER_LOST
    assert world.state(job) == JobState.QUEUED
