"""Gangs by the real engine and fake agents: whole or not at all, one cause, shares that change while they run."""

import pytest

from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.live.rounds.run_round import FORMING_MOST_S
from scheduler.models import Event, GangMember, Job, Lease, LeaseGpu
from tests.support.live.gangs import BROKEN, follow, processes, running
from tests.support.live.ports import FakeAgent
from tests.support.live.world import World


@pytest.fixture
def servers(world: World) -> list[FakeAgent]:
    """Two servers of two slots."""
    return [world.server("alpha"), world.server("beta")]


def gang(world: World, *, gpus: int = 3, **resources: object) -> Job:
    """Submit a gang that may use both servers."""
    return world.submit(resources={"gpus": gpus, "max_servers": 2, **resources})


def test_every_gpu_gets_a_process_that_finds_the_others(world: World, servers: list[FakeAgent]) -> None:
    """Three processes on two servers: one address, port and secret, ranks 0 to 2, and only rank 0 knows the members."""
    job = gang(world)
    orders = [process.wanted for process in running(world, job)]
    places = [order.gang for order in orders]

    assert [len(agent.attempts) for agent in servers] == [2, 1]
    assert [place.rank for place in places if place] == [0, 1, 2]
    assert len({(place.address, place.port, place.secret, place.size) for place in places if place}) == 1
    assert [len(place.members) for place in places if place] == [3, 0, 0]
    assert [order.gpu_indexes for order in orders] == [(0,), (1,), (0,)]
    assert orders[0].attempt_id == world.attempts(job)[0].pk


def test_job_runs_once_all_its_processes_do(world: World, servers: list[FakeAgent]) -> None:
    """While one server has not started its part the job is launching; without an answer it is planned again."""
    servers[1].launches = False
    job = gang(world)
    world.pass_time(10)
    assert world.state(job) == JobState.LAUNCHING
    world.pass_time(40)
    first = world.attempts(job)[0]

    assert (first.end_cause, first.started_at) == (EndCause.LAUNCH_UNCONFIRMED, None)
    assert Job.objects.get(pk=job.pk).failures == 0


def test_first_failure_ends_all_and_names_the_cause(world: World, servers: list[FakeAgent]) -> None:
    """The report that a peer was lost comes first; the cause is still that of the rank that failed by itself."""
    job = gang(world)
    leader, other, far = running(world, job)
    leader.phase, leader.cause, leader.exit_code = "ended", "exit_code", BROKEN
    servers[0].stops_at_once = servers[1].stops_at_once = False
    world.pass_time(2)
    assert {other.wanted.wanted, far.wanted.wanted} == {"cancel"}
    assert LeaseGpu.objects.filter(released_at=None).count() == 3
    far.phase, far.cause, far.detail = "ended", "out_of_memory", "It used too much."
    other.phase, other.cause, other.exit_code = "ended", "exit_code", BROKEN
    world.pass_time(1)

    attempt = world.attempts(job)[0]
    assert (attempt.end_cause, attempt.end_detail) == (EndCause.OUT_OF_MEMORY, "It used too much. (rank 2 of 3)")
    assert world.state(job) == JobState.FAILED
    assert not LeaseGpu.objects.filter(released_at=None).exists()


@pytest.mark.parametrize("dead", [0, 1])
def test_rank_may_have_died_when_a_server_first_tells_of_its_ranks(
    world: World, servers: list[FakeAgent], dead: int
) -> None:
    """One report says that one of its ranks ended and that the other runs; the server on the far side told before."""
    job = gang(world)
    world.pass_time(3, silent=("alpha",))
    assert world.state(job) == JobState.LAUNCHING
    servers[0].read()
    ranks = [servers[0].attempts[pk] for pk in sorted(servers[0].attempts)]
    for rank in ranks:
        rank.phase, rank.run_s = "running", 1.0
    ranks[dead].phase, ranks[dead].cause, ranks[dead].detail = "ended", "out_of_memory", "It used too much."
    world.pass_time(3)

    attempt = world.attempts(job)[0]
    assert (attempt.end_cause, attempt.end_detail) == (EndCause.OUT_OF_MEMORY, f"It used too much. (rank {dead} of 3)")
    assert world.state(job) == JobState.FAILED


def test_ranks_that_only_lost_each_other_are_no_fault_of_the_job(world: World, servers: list[FakeAgent]) -> None:
    """Nobody failed by itself: the network did, and the job goes back without a failure counted."""
    job = gang(world, gpus=3)
    for process in running(world, job):
        process.phase, process.cause, process.exit_code = "ended", "exit_code", BROKEN
    world.until(lambda: len(world.attempts(job)) == 2)

    assert world.attempts(job)[0].end_cause == EndCause.SUPERVISOR_LOST
    assert Job.objects.get(pk=job.pk).failures == 0


def test_lost_server_ends_the_gang_on_the_others(world: World, servers: list[FakeAgent]) -> None:
    """GPUs of the silent server are given up with it; those of the other are free once its processes are gone."""
    job = gang(world)
    running(world, job)
    servers[0].stops_at_once = False
    for _ in range(90):
        world.pass_time(1, silent=("beta",))
        if GangMember.objects.filter(end_cause=EndCause.SERVER_LOST).exists():
            break
    assert world.state(job) == JobState.PREEMPTING
    assert Lease.objects.filter(closed_at=None, server_id=servers[0].server_id).exists()
    servers[0].stops_at_once = True
    world.pass_time(3, silent=("beta",))

    assert world.attempts(job)[0].end_cause == EndCause.SERVER_LOST
    assert world.state(job) == JobState.QUEUED


def test_gang_is_preempted_as_one(world: World, servers: list[FakeAgent]) -> None:
    """All ranks are asked in the same breath; the checkpoint is that of the leader."""
    job = gang(world)
    leader, *_ = running(world, job)
    world.pass_time(5)
    world.do(lambda: Job.objects.filter(pk=job.pk).update(wanted="suspend"))
    world.round()
    world.until_state(job, JobState.SUSPENDED)

    saved = Job.objects.get(pk=job.pk)
    assert saved.checkpoint_step == leader.checkpoint_step
    assert saved.checkpoint_attempt_id == world.attempts(job)[0].pk
    assert world.attempts(job)[0].end_cause == EndCause.SUSPENDED


def test_gangs_take_turns_as_one(world: World, servers: list[FakeAgent]) -> None:
    """Two gangs on two servers: each keeps its processes, all of them off or none, and the step where it stood."""
    world.settings(introspection=["slicing"], introspection_options={"slicing": {"quantum_s": 5}})
    jobs = [gang(world) for _ in range(2)]
    parked: list[set[str]] = []
    for _ in range(60):
        for job in jobs:
            found = processes(world, job)
            if found and found[0].phase == "running":
                found[0].extra = {"gang_version": 0, "gang_size": 3}
        world.pass_time(1)
        parked += [{process.phase for process in processes(world, job)} for job in jobs]

    turns = [Event.objects.filter(job=job, new_state=JobState.PARKED).count() for job in jobs]
    assert min(turns) >= 3
    assert [len(world.attempts(job)) for job in jobs] == [1, 1]
    assert {"parked"} in parked
    assert not any("parked" in phases and len(phases) > 1 for phases in parked)
    assert all((process.step or 0) > 15 for job in jobs for process in processes(world, job))
    assert LeaseGpu.objects.filter(released_at=None).count() <= 4


def test_turn_lasts_until_a_gang_has_formed(world: World, servers: list[FakeAgent]) -> None:
    """Its start takes longer than a quantum: it is neither parked nor ended before it trains, and then takes turns."""
    world.settings(introspection=["slicing"], introspection_options={"slicing": {"quantum_s": 5}})
    first, second = gang(world), gang(world)
    world.until_state(first, JobState.RUNNING)
    world.pass_time(20)
    early = world.state(first), world.state(second)
    processes(world, first)[0].extra = {"gang_version": 0, "gang_size": 3}
    world.until_state(first, JobState.PARKED)
    world.until_state(second, JobState.RUNNING)

    assert early == (JobState.RUNNING, JobState.QUEUED)
    assert len(world.attempts(first)) == 1


def test_gang_that_never_forms_is_not_parked(world: World, servers: list[FakeAgent]) -> None:
    """Its processes might wait for each other: after a while it ends, and begins anew at its next turn."""
    world.settings(introspection=["slicing"], introspection_options={"slicing": {"quantum_s": 5}})
    first, second = gang(world), gang(world)
    world.until_state(first, JobState.RUNNING)
    took_s = world.until_state(second, JobState.RUNNING, within_s=200)

    assert took_s >= FORMING_MOST_S - 10
    assert world.attempts(first)[0].end_cause == EndCause.PREEMPTED


def test_parked_gang_of_a_lost_server_begins_anew(world: World, servers: list[FakeAgent]) -> None:
    """What the other server keeps of it is of no use, and is let go."""
    world.settings(introspection=["slicing"], introspection_options={"slicing": {"quantum_s": 5}})
    first, _ = gang(world), gang(world)
    running(world, first)[0].extra = {"gang_version": 0, "gang_size": 3}
    world.until_state(first, JobState.PARKED)
    del world.agents["beta"]
    world.until(lambda: world.attempts(first)[0].ended_at is not None)

    assert world.attempts(first)[0].end_cause == EndCause.SERVER_LOST
    assert world.state(first) == JobState.QUEUED
    assert not Lease.objects.filter(attempt__job=first, closed_at=None).exists()


def test_elastic_job_shrinks_for_others_and_grows_again(world: World, servers: list[FakeAgent]) -> None:
    """Max-min: four GPUs, one when three jobs come, four when they are gone; one attempt, and service by the GPU."""
    world.settings(policy="maxmin")
    job = world.submit(resources={"gpus": 1, "max_gpus": 4, "max_servers": 2})
    assert len(running(world, job)) == 4
    world.pass_time(10)
    others = [world.submit() for _ in range(3)]
    for _ in range(10):
        world.pass_time(1)
        follow(world, job)
    assert [world.state(other) for other in others] == [JobState.RUNNING] * 3
    assert len(processes(world, job)) == 1
    for other in others:
        world.agent_of(other).end(other.pk, cause="completed", exit_code=0)
    for _ in range(10):
        world.pass_time(1)
        follow(world, job)

    assert len(processes(world, job)) == 4
    (attempt,) = world.attempts(job)
    assert (attempt.state, attempt.num_gpus) == ("running", 4)
    sizes = Event.objects.filter(job=job, kind="job_resized", reason="switched").order_by("number")
    assert [sizes.first().data["gpus"], sizes.last().data["gpus"]] == [1, 4]  # type: ignore[union-attr]
    closed = Lease.objects.filter(attempt=attempt).exclude(closed_at=None)
    spans = closed.values_list("num_gpus", "opened_at", "closed_at")
    held = sum(gpus * (until - since).total_seconds() for gpus, since, until in spans if until is not None)
    assert Job.objects.get(pk=job.pk).attained_gpu_s == pytest.approx(held)


def test_new_rank_that_cannot_start_does_not_end_the_others(world: World, servers: list[FakeAgent]) -> None:
    """A process that ends before it trained is left out, and its GPU is free again."""
    world.settings(policy="maxmin")
    first = world.submit(resources={"gpus": 1})
    world.until_state(first, JobState.RUNNING)
    job = world.submit(resources={"gpus": 1, "max_gpus": 4, "max_servers": 2})
    assert len(running(world, job)) == 3
    follow(world, job)
    world.agent_of(first).end(first.pk, cause="completed", exit_code=0)
    world.until(lambda: len(processes(world, job)) == 4)
    newest = processes(world, job)[-1]
    newest.phase, newest.cause = "ended", "launch_failed"
    world.pass_time(1)

    assert world.state(job) == JobState.RUNNING
    assert len(world.attempts(job)) == 1
    assert GangMember.objects.get(pk=newest.wanted.attempt_id).leaving
