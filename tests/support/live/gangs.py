"""Gangs under the real engine and fake agents: their processes, and what those of a real one would do by themselves."""

from scheduler.core.model.lifecycle import JobState
from scheduler.models import GangMember, Job
from tests.support.live.ports import FakeAttempt
from tests.support.live.world import World

STOPPED, BROKEN = 75, 76


def processes(world: World, job: Job) -> list[FakeAttempt]:
    """Return the processes of a gang in the order of joining, those that have ended left out."""
    found = {pk: attempt for agent in world.agents.values() for pk, attempt in agent.attempts.items()}
    members = GangMember.objects.filter(gang__attempt__job=job, gang__attempt__ended_at=None, ended_at=None)
    return [found[member.pk] for member in members.order_by("number") if member.pk in found]


def running(world: World, job: Job) -> list[FakeAttempt]:
    """Return the processes once the job runs."""
    world.until_state(job, JobState.RUNNING)
    return processes(world, job)


def follow(world: World, job: Job) -> None:
    """Do what the leader and the ranks of a real gang do: change to the newest membership, and leave it."""
    leader, *others = processes(world, job)
    place = leader.wanted.gang
    assert place is not None
    leader.extra = {"gang_version": place.version, "gang_size": len(place.members), "switch_s": 0.1}
    for other in others:
        if other.wanted.attempt_id not in place.members:
            other.phase, other.cause, other.exit_code = "ended", "exit_code", STOPPED
