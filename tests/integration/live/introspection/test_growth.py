"""Grow-shrink by the real engine: a running job takes idle GPUs, keeps them if it gained, and gives them back."""

import pytest

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Event, Job, LeaseGpu, Trial
from tests.support.live.gangs import follow, processes, running
from tests.support.live.world import World

IDLE_S, MEASURE_S = 5, 8


@pytest.fixture
def growing(world: World) -> World:
    """One server of two slots, and jobs that grow into what was idle for five seconds."""
    options = {"growth": {"idle_s": IDLE_S, "measure_s": MEASURE_S}}
    world.settings(policy="fifo", introspection=["growth"], introspection_options=options)
    world.server("alpha")
    return world


def train(world: World, job: Job, *, seconds: int, rate: float) -> None:
    """Let time pass; with two processes the job trains at the given rate, alone at 1 step a second."""
    for _ in range(seconds):
        world.pass_time(1)
        follow(world, job)
        leader, *others = processes(world, job)
        leader.steps_per_s = rate if others else 1.0


def test_idle_gpu_is_grown_into_and_given_back(growing: World) -> None:
    """Twice as fast on two: kept, in the same attempt; a job that waits gets the slot, and the first goes on on one."""
    job = growing.submit(resources={"gpus": 1, "max_gpus": 2})
    assert len(running(growing, job)) == 1
    train(growing, job, seconds=IDLE_S + MEASURE_S + 10, rate=2.0)
    grown, verdicts = len(processes(growing, job)), [trial.verdict for trial in Trial.objects.filter(kind="grow")]
    other = growing.submit()
    train(growing, job, seconds=10, rate=2.0)

    told = Event.objects.filter(job=job, kind="trial").order_by("number")
    assert (grown, verdicts) == (2, ["kept"])
    assert [event.reason for event in told][:2] == ["grow_trying", "grow_kept"]
    assert (told[1].data["rates_before"], told[1].data["rates_after"]) == ([1.0], [2.0])
    assert growing.state(job) == growing.state(other) == JobState.RUNNING
    assert len(processes(growing, job)) == len(growing.attempts(job)) == 1
    assert LeaseGpu.objects.filter(released_at=None).count() == 2


def test_growth_that_gains_too_little_is_undone(growing: World) -> None:
    """A tenth more on twice the slots: it shrinks again, and the slot is free."""
    job = growing.submit(resources={"gpus": 1, "max_gpus": 2})
    running(growing, job)
    train(growing, job, seconds=IDLE_S + MEASURE_S + 10, rate=1.1)

    told = Event.objects.filter(job=job, kind="trial").order_by("number")
    assert [event.reason for event in told] == ["grow_trying", "grow_undone"]
    assert len(processes(growing, job)) == len(growing.attempts(job)) == 1
    assert LeaseGpu.objects.filter(released_at=None).count() == 1
