"""Time slicing by the real engine, with a fake agent on a virtual clock."""

import pytest

from scheduler.core.model.lifecycle import EndCause, JobState
from scheduler.models import Attempt, Event, Job, Lease, LeaseGpu, Server
from scheduler.services.cluster.servers import server_drain
from scheduler.services.jobs.cancel_suspend_resume import job_cancel, job_suspend
from tests.support.live.world import World

QUANTUM_S = 5


@pytest.fixture
def slicing(world: World) -> World:
    """A world in which jobs take turns of five seconds."""
    world.settings(introspection=["slicing"], introspection_options={"slicing": {"quantum_s": QUANTUM_S}})
    return world


def served_s(world: World, job: Job) -> float:
    """Return the GPU-seconds that a job has had by its leases, closed and open."""
    now = world.clock.now()
    leases = Lease.objects.filter(attempt__job=job, num_gpus__gte=1)
    spans = [(lease.num_gpus, lease.opened_at, lease.closed_at or now) for lease in leases]
    return sum(gpus * (until - opened_at).total_seconds() for gpus, opened_at, until in spans)


def test_two_jobs_take_turns_on_one_slot(slicing: World) -> None:
    """Each keeps its one attempt, and its step where it stood; the slot is in one lease at any time."""
    slicing.server("alpha", slots=1)
    first, second = slicing.submit(), slicing.submit()
    slicing.until_state(first, JobState.RUNNING)
    slicing.until_state(first, JobState.PARKED, within_s=2 * QUANTUM_S)
    slicing.until_state(second, JobState.RUNNING)
    step = Job.objects.get(pk=first.pk).step
    slicing.until_state(first, JobState.RUNNING, within_s=2 * QUANTUM_S)
    slicing.pass_time(6 * QUANTUM_S)

    assert step is not None
    assert (Job.objects.get(pk=first.pk).step or 0) >= step
    assert [attempt.number for job in (first, second) for attempt in slicing.attempts(job)] == [1, 1]
    assert LeaseGpu.objects.filter(released_at=None).count() == 1
    moves = Event.objects.filter(job=first, kind="job_state").order_by("number").values_list("new_state", flat=True)
    assert list(moves)[:6] == ["queued", "launching", "running", "parked", "running", "parked"]
    assert abs(served_s(slicing, first) - served_s(slicing, second)) <= QUANTUM_S + 2


def test_who_takes_long_to_leave_does_not_take_the_next_turn_as_well(slicing: World) -> None:
    """Rounds that come while one leaves do not forget that it had its turn: on a busy machine, too, all get theirs."""
    agent = slicing.server("alpha", slots=1)
    agent.parks_after_s = 3.0
    jobs = [slicing.submit() for _ in range(3)]
    for _ in range(18 * QUANTUM_S):
        slicing.pass_time(1)
        slicing.round()
    service = [served_s(slicing, job) for job in jobs]

    assert min(service) > 0
    assert max(service) - min(service) <= QUANTUM_S + agent.parks_after_s + 2


def test_parked_job_holds_memory_and_no_gpu_and_says_why_it_waits(slicing: World) -> None:
    """What it used at most stays counted on its server; who runs has the rest."""
    agent = slicing.server("alpha", slots=1)
    first, second = slicing.submit(), slicing.submit()
    slicing.until_state(first, JobState.RUNNING)
    agent.attempt_of(first.pk).peak_memory_bytes = 3 * 2**30
    slicing.until_state(second, JobState.RUNNING, within_s=2 * QUANTUM_S)
    slicing.pass_time(2)

    parked = Lease.objects.get(attempt__job=first, closed_at=None)
    running = Lease.objects.get(attempt__job=second, closed_at=None)
    row = Job.objects.get(pk=first.pk)
    assert (parked.num_gpus, parked.cpus, parked.memory_bytes) == (0, 0.0, 3 * 2**30)
    assert running.memory_bytes + parked.memory_bytes <= Server.objects.get().memory_bytes
    assert (row.state, row.wait_reason) == (JobState.PARKED, "no_capacity")
    assert agent.attempt_of(first.pk).wanted.gpu_indexes == ()


def test_parked_job_may_use_as_much_as_when_it_ran(slicing: World) -> None:
    """It keeps what it used at most; woken to write a checkpoint it needs more, and must not be ended for that."""
    agent = slicing.server("alpha", slots=1)
    first, second = slicing.submit(), slicing.submit()
    slicing.until_state(first, JobState.RUNNING)
    slicing.pass_time(1)
    granted_bytes = agent.attempt_of(first.pk).wanted.memory_bytes
    slicing.until_state(second, JobState.RUNNING, within_s=2 * QUANTUM_S)
    slicing.pass_time(2)

    assert Lease.objects.get(attempt__job=first, closed_at=None).memory_bytes < granted_bytes
    assert agent.attempt_of(first.pk).wanted.memory_bytes == granted_bytes


def test_six_jobs_share_four_slots_equally(slicing: World) -> None:
    """Weighted round robin with equal weights: equal service, and the slots are never idle for long."""
    slicing.server("alpha", slots=4)
    jobs = [slicing.submit() for _ in range(6)]
    slicing.pass_time(24 * QUANTUM_S)
    service = [served_s(slicing, job) for job in jobs]

    assert max(service) - min(service) <= 2 * QUANTUM_S
    assert sum(service) >= 0.8 * 4 * 24 * QUANTUM_S
    assert Attempt.objects.count() == 6


def test_weight_is_a_share_of_time(slicing: World) -> None:
    """Weight 3 beside weight 1 has three quarters of the slot."""
    slicing.server("alpha", slots=1)
    heavy, light = slicing.submit(), slicing.submit()
    Job.objects.filter(pk=heavy.pk).update(weight=3.0)
    slicing.pass_time(24 * QUANTUM_S)

    assert served_s(slicing, heavy) / served_s(slicing, light) == pytest.approx(3.0, rel=0.15)


def test_parked_job_of_a_lost_server_restarts_from_its_checkpoint(slicing: World) -> None:
    """Its memory is gone with the server; the job is not."""
    agent = slicing.server("alpha", slots=1)
    first, second = slicing.submit(), slicing.submit()
    slicing.until_state(first, JobState.RUNNING)
    slicing.pass_time(3)
    agent.checkpoint(first.pk)
    slicing.until_state(first, JobState.PARKED, within_s=2 * QUANTUM_S)
    del slicing.agents["alpha"]  # it is never heard of again
    slicing.until_state(first, JobState.QUEUED, within_s=60)
    slicing.server("beta", slots=2)
    slicing.pass_time(5)

    assert slicing.state(first) == slicing.state(second) == JobState.RUNNING
    ended, present = slicing.attempts(first)
    assert ended.end_cause == EndCause.SERVER_LOST
    assert present.resume_step == Job.objects.get(pk=first.pk).checkpoint_step is not None
    assert Lease.objects.filter(closed_at=None).count() == 2


def test_parked_job_goes_on_elsewhere_from_a_checkpoint(slicing: World) -> None:
    """A slot of another server comes free: it checkpoints from where it waits, and restarts there."""
    slicing.server("alpha", slots=1)
    first, second = slicing.submit(), slicing.submit()
    slicing.until_state(first, JobState.PARKED, within_s=3 * QUANTUM_S)
    slicing.server("beta", slots=1)
    slicing.until(lambda: slicing.state(first) == slicing.state(second) == JobState.RUNNING, within_s=20)
    slicing.pass_time(3 * QUANTUM_S)

    moved = next(job for job in (first, second) if len(slicing.attempts(job)) == 2)
    before, after = slicing.attempts(moved)
    assert (before.end_cause, before.preempt_rule, before.lost_s) == (EndCause.PREEMPTED, "moved", 0.0)
    assert after.resume_step is not None
    assert Attempt.objects.count() == 3


@pytest.mark.parametrize("wish", ["cancel", "suspend"])
def test_owner_ends_a_parked_job(slicing: World, wish: str) -> None:
    """Cancel and pause reach it as they reach a running one."""
    slicing.server("alpha", slots=1)
    first, _ = slicing.submit(), slicing.submit()
    slicing.until_state(first, JobState.PARKED, within_s=3 * QUANTUM_S)
    service = {"cancel": job_cancel, "suspend": job_suspend}[wish]
    slicing.do(lambda: service(actor=slicing.admin, job=Job.objects.get(pk=first.pk), at=slicing.clock.now()))
    slicing.pass_time(3)

    assert slicing.state(first) == (JobState.CANCELLED if wish == "cancel" else JobState.SUSPENDED)
    assert not Lease.objects.filter(attempt__job=first, closed_at=None).exists()


def test_drained_server_lets_go_of_its_parked_jobs(slicing: World) -> None:
    """They cannot have another turn there."""
    slicing.server("alpha", slots=1)
    first, second = slicing.submit(), slicing.submit()
    slicing.until_state(first, JobState.PARKED, within_s=3 * QUANTUM_S)
    server = Server.objects.get(name="alpha")
    slicing.do(lambda: server_drain(actor=slicing.admin, server=server, reason="test", at=slicing.clock.now()))
    slicing.pass_time(5)

    assert slicing.state(first) == slicing.state(second) == JobState.QUEUED
    assert not Lease.objects.filter(closed_at=None).exists()


def test_server_without_memory_to_spare_preempts_instead(slicing: World) -> None:
    """Parked jobs keep at most half of a server's memory; the next one checkpoints and ends."""
    agent = slicing.server("alpha", slots=1)
    first, second = slicing.submit(), slicing.submit()
    slicing.until_state(first, JobState.RUNNING)
    agent.attempt_of(first.pk).peak_memory_bytes = int(0.6 * agent.memory_bytes)
    slicing.until_state(second, JobState.RUNNING, within_s=3 * QUANTUM_S)

    assert slicing.attempts(first)[0].end_cause == EndCause.PREEMPTED
    assert slicing.state(first) == JobState.QUEUED


def test_old_word_that_a_job_is_parked_frees_nothing(slicing: World) -> None:
    """Said before the newest wish was known, it is about an earlier turn."""
    agent = slicing.server("alpha", slots=1)
    agent.stops_at_once = False
    first, _ = slicing.submit(), slicing.submit()
    slicing.until_state(first, JobState.RUNNING)
    attempt = agent.attempt_of(first.pk)
    stale = attempt.generation
    slicing.until(lambda: attempt.wanted.wanted == "park", within_s=2 * QUANTUM_S)
    known, attempt.generation, attempt.phase = attempt.generation, stale, "parked"
    slicing.pass_time(2)
    early = slicing.state(first)
    held = LeaseGpu.objects.filter(released_at=None, lease__attempt__job=first).count()
    attempt.generation = known
    slicing.pass_time(1)

    assert (early, held) == (JobState.RUNNING, 1)
    assert slicing.state(first) == JobState.PARKED


def test_without_slicing_nobody_is_parked(world: World) -> None:
    """Preempted jobs checkpoint and end as always."""
    world.settings(policy="las", policy_options={"queue_limits_gpu_s": [5.0]})
    world.server("alpha", slots=1)
    first = world.submit()
    world.until_state(first, JobState.RUNNING)
    world.pass_time(10)
    world.submit()
    world.pass_time(5)

    assert world.attempts(first)[0].end_cause == EndCause.PREEMPTED
    assert not Event.objects.filter(new_state=JobState.PARKED).exists()
