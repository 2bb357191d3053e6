"""Jobs start only where they are kept apart as their queue demands; a server that keeps nothing apart has one queue."""

from scheduler.core.model.lifecycle import JobState
from scheduler.live.rounds.barred import barred_read
from scheduler.models import Job, Queue, Server
from scheduler.services.cluster.servers import server_mix_queues
from tests.support.live.world import World


def _waits_for_isolation(world: World, job: Job) -> bool:
    world.round()
    return Job.objects.get(pk=job.pk).wait_reason == "isolation"


def test_queue_that_demands_more_waits_and_says_so(world: World) -> None:
    """The fake servers keep nothing apart; the demand holds for the queues below."""
    world.server("alpha")
    parent = world.queue("hospital", quota_gpus=2)
    world.queue("hospital/heart", quota_gpus=1, parent=parent)
    Queue.objects.filter(pk=parent.pk).update(isolation="user")
    job, other = world.submit("hospital/heart"), world.submit()
    world.until_state(other, JobState.RUNNING)

    assert _waits_for_isolation(world, job)
    Queue.objects.filter(pk=parent.pk).update(isolation="none")
    world.round()
    world.until_state(job, JobState.RUNNING)


def test_levels_and_refusals_bar_servers(world: World) -> None:
    """A server is barred to queues that demand more than it gives, and to all when its agent takes no jobs."""
    world.server("alpha")
    world.queue("strict")
    Queue.objects.filter(name="strict").update(isolation="user")
    strict, vision = (Queue.objects.get(name=name).pk for name in ("strict", "vision"))
    number = Server.objects.get().number

    found = {}
    for isolation in ("none+cgroup", "none+landlock", "user", "user+cgroup+landlock", "refused"):
        Server.objects.update(isolation=isolation)
        barred = set(barred_read())
        found[isolation] = [(queue, number) in barred for queue in (strict, vision)]
    assert found == {
        "none+cgroup": [True, False],
        "none+landlock": [True, False],
        "user": [False, False],
        "user+cgroup+landlock": [False, False],
        "refused": [True, True],
    }
    Server.objects.update(isolation="none", agent_version="simulated 1")
    assert barred_read() == ()


def test_server_that_keeps_nothing_apart_has_one_queue_until_an_admin_consents(world: World) -> None:
    """The one that had it last."""
    world.server("alpha")
    world.queue("speech")
    Server.objects.update(may_mix_queues=False)
    first = world.submit()
    world.until_state(first, JobState.RUNNING)
    second = world.submit("speech")

    assert _waits_for_isolation(world, second)
    server, at = Server.objects.get(), world.clock.now()
    world.do(lambda: server_mix_queues(actor=world.admin, server=server, allowed=True, reason="one team", at=at))
    world.until_state(second, JobState.RUNNING)
