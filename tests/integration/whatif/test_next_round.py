"""What the next round would do under other settings is what it then does, and asking changes nothing."""

import pytest

from scheduler.core.model.errors import NotAllowed, PlanInvariantError, SpecInvalid
from scheduler.models import Event, Job, Round
from scheduler.services.cluster.settings import cluster_row
from scheduler.whatif import next_round as next_rounds
from scheduler.whatif.next_round import NAMED_MOST, NextRound, next_round
from tests.support.live.world import World
from tests.support.rows.factories import user_make

pytestmark = pytest.mark.django_db


@pytest.fixture
def world() -> World:
    """Two long jobs hold the four GPUs under fifo; two short ones came after them and wait."""
    made = World()
    made.settings(policy="fifo")
    made.queue("vision", quota_gpus=4)
    made.server("server-1", slots=4)
    for name, steps in (("long-a", 90_000), ("long-b", 90_000), ("short-a", 10), ("short-b", 10)):
        made.submit(gpus=2, name=name, progress={"total_steps": steps})
    made.pass_time(20)
    Job.objects.update(steps_per_s=1.0)
    return made


def ask(world: World, **changes: object) -> NextRound:
    """Ask as the admin, now."""
    return next_round(actor=world.admin, changes=changes, at=world.clock.now())


def names(jobs: tuple[Job, ...]) -> set[str]:
    """Return the names of jobs."""
    return {job.name for job in jobs}


def test_the_round_after_the_change_does_what_was_told(world: World) -> None:
    """Preempted and started jobs are those of the plan, which the settings in force would not make."""
    told, same = ask(world, policy="srtf"), ask(world, policy="fifo")

    world.settings(policy="srtf")
    done = world.round("settings")

    assert names(told.preempted.named) == {"long-a", "long-b"}
    assert names(told.starts.named) == {"short-a", "short-b"}
    assert (told.preempted.num_gpus, told.starts.num_gpus) == (4, 4)
    assert (told.unknown, told.elsewhere, told.preempted_anyway) == ("", 0, 0)
    assert (same.preempted.count, same.starts.count) == (0, 0)
    assert done is not None
    numbers = {entry["job"] for entry in done.decisions["preemptions"]}
    assert numbers == {job.number for job in told.preempted.named}


def test_asking_writes_nothing(world: World) -> None:
    """No settings, round, event or state of a job."""
    before = (cluster_row().settings_version, Round.objects.count(), Event.objects.count(), list(Job.objects.values()))

    ask(world, policy="las")

    after = (cluster_row().settings_version, Round.objects.count(), Event.objects.count(), list(Job.objects.values()))
    assert after == before


def test_what_cannot_be_known_is_not_guessed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """While scheduling is paused no round comes, and a plan that breaks a rule is not applied either."""
    world.settings(paused=True)
    paused = ask(world, policy="srtf")
    world.settings(paused=False)

    def refuse(*_: object) -> None:
        raise PlanInvariantError("two jobs on one GPU")

    monkeypatch.setattr(next_rounds, "plan_round", refuse)

    assert paused == NextRound(unknown="paused")
    assert ask(world, policy="srtf") == NextRound(unknown="refused")


def test_only_an_admin_asks_and_only_for_settings_that_could_be_saved(world: World) -> None:
    """The answer names jobs of all queues."""
    with pytest.raises(NotAllowed):
        next_round(actor=user_make("mia"), changes={"policy": "srtf"}, at=world.clock.now())
    with pytest.raises(SpecInvalid):
        ask(world, policy="fastest")


def test_many_jobs_are_counted_and_the_first_named(world: World) -> None:
    """In the order of the policy."""
    world.settings(paused=True)
    world.server("server-2", slots=NAMED_MOST + 2)
    world.queue("nlp", quota_gpus=NAMED_MOST + 2)
    for number in range(NAMED_MOST + 2):
        world.submit("nlp", gpus=1, name=f"single-{number}", progress={"total_steps": 5})
    world.settings(paused=False)

    told = ask(world, policy="srtf", locality="relax").starts

    assert len(told.named) == NAMED_MOST
    assert told.unnamed == told.count - NAMED_MOST > 0
