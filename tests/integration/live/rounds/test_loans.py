"""GPUs of a share that fits on no server are lent by the live engine, remembered, and given back."""

from scheduler.core.model.lifecycle import JobState
from scheduler.core.model.plan import PreemptRule, WaitReason
from scheduler.models import Job
from tests.support.live.world import World


def test_borrower_runs_until_the_share_fits(world: World) -> None:
    """One GPU free on each of two servers: a job that came later runs until a server is free for the wide one."""
    world.settings(policy="maxmin")
    for name in ("alpha", "beta"):
        world.server(name)
    first = [world.submit(name=f"first-{number}") for number in range(4)]
    for job in first:
        world.until_state(job, JobState.RUNNING)
    on = {name: [job for job in first if world.agent_of(job).name == name] for name in world.agents}
    for name, (job, _) in on.items():
        world.agents[name].end(job.pk, cause="completed", exit_code=0)
    world.pass_time(2)
    wide = world.submit(gpus=2, name="wide")
    world.pass_time(2)
    late = world.submit(name="late")
    world.until_state(late, JobState.RUNNING)
    world.pass_time(5)

    assert Job.objects.get(pk=wide.pk).wait_reason == WaitReason.FRAGMENTATION
    assert [attempt.is_lent for attempt in world.attempts(late)] == [True]

    agent = world.agent_of(late)
    agent.end(on[agent.name][1].pk, cause="completed", exit_code=0)
    world.until_state(wide, JobState.RUNNING)
    world.until_state(late, JobState.RUNNING)

    before, now = world.attempts(late)
    assert before.preempt_rule == PreemptRule.MOVED
    assert not now.is_lent
