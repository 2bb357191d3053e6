"""Whether the rule that a round names for a preemption holds between the two jobs in the tree of queues."""

from collections.abc import Callable

from scheduler.core.model.plan import Preemption, PreemptRule
from scheduler.core.model.tables import NO_ROW
from scheduler.core.round.config import SchedulerConfig
from tests.support.oracle.told.waits import Says
from tests.support.oracle.told.world import World


def false_rule(world: World, config: SchedulerConfig, told: Preemption) -> Says:
    """Return what is not true of the preemption, empty when all of it is."""
    wrong = []
    job, by_job = told.job, told.by_job
    if job not in world.before and not world.snapshot.jobs.running[job]:
        wrong.append("it did not run")
    if world.before.get(job) == world.after.get(job) and job in world.after:
        wrong.append("it stays")
    if by_job != NO_ROW and by_job not in world.after:
        wrong.append("the other job does not run")
    if by_job != NO_ROW and world.before.get(by_job) == world.after.get(by_job):
        wrong.append("the other job runs where it ran")
    held = told.evidence.get("queue_held_gpus")
    if held is not None and not world.is_sharing:  # shares change what jobs hold before they are placed
        queue = world.queue[job]
        own = world.held(queue, world.before)
        if not int(held) <= max(own, world.held(queue, world.after)):
            wrong.append(f"queue_held_gpus is {own}")
    return wrong + _RULES[told.rule](world, config, told)


def _policy_order(world: World, config: SchedulerConfig, told: Preemption) -> Says:
    first, then = world.order.index(told.by_job), world.order.index(told.job)
    wrong = [] if first < then else ["the other job comes after it"]
    if (told.evidence["by_position"], told.evidence["position"]) != (first + 1, then + 1):
        wrong.append("positions")
    if not _may_be_stopped(world, config, told.job):
        wrong.append("the order may not stop it")
    return wrong


def _quota_reclaim(world: World, config: SchedulerConfig, told: Preemption) -> Says:
    wrong = [] if _borrowed(world, told.job) else ["it had not borrowed"]
    if told.by_job == NO_ROW:
        return wrong
    own, others = world.path(world.queue[told.by_job]), world.path(world.queue[told.job])
    apart = [node for node in own if node not in others]
    stays = {*world.plan.kept, told.by_job}
    if any(world.held(node, world.after, stays) <= world.quota(node) for node in apart):
        return wrong
    # Else the quota of a queue above both speaks for it, and the order alone would not have been enough.
    first = world.order.index(told.by_job) < world.order.index(told.job)
    if first and _may_be_stopped(world, config, told.job):
        wrong.append("the order would have been enough")
    if not any(world.held(node, world.after, {told.by_job}) <= world.quota(node) for node in own):
        wrong.append("the other job is beyond its quota")
    return wrong


def _may_be_stopped(world: World, config: SchedulerConfig, job: int) -> bool:
    jobs = world.snapshot.jobs
    old = world.snapshot.now_s - jobs.held_at_s[job] >= config.min_run_s
    return bool(world.is_preemptive and jobs.preemptible[job] and old)


def _borrowed(world: World, job: int) -> bool:
    """Return whether no quota need cover the job: its queue's, or what a queue above may hold, is not enough for all
    that stands before it or ran, and it.
    """
    table, queue = world.snapshot.jobs, world.queue[job]
    claims = {*world.ahead(job), job, *world.before}

    def asked(node: int) -> int:
        mine = {other for other in world.within(node) if other in claims or world.queue[other] != queue}
        return sum(max(int(table.max_gpus[other]), world.gpus(other, world.before)) for other in mine)

    return asked(queue) > world.quota(queue) or any(asked(node) > world.cap(node) for node in world.path(queue))


def _over_share(world: World, config: SchedulerConfig, told: Preemption) -> Says:
    wrong = [] if _borrowed(world, told.job) else ["it had not borrowed"]
    queue = world.queue[told.job]
    full = any(world.held(node, world.before) > world.cap(node) for node in world.path(queue))
    if queue == world.queue[told.by_job] and not full:
        wrong.append("both jobs are of one queue")
    if world.order.index(told.by_job) < world.order.index(told.job):
        wrong.append("the order would have been enough")
    return wrong


def _server_gone(world: World, config: SchedulerConfig, told: Preemption) -> Says:
    seats = world.before.get(told.job, {})
    jobs = world.snapshot.jobs
    if sum(seats.values()) < (jobs.min_gpus if world.is_sharing else jobs.num_gpus)[told.job]:
        return []
    return [] if any(_is_overfull(world, server) for server in seats) else ["its servers are there and have room"]


def _is_overfull(world: World, server: int) -> bool:
    row = world.case.servers[server]
    used = [0.0, 0.0, 0.0]
    for job, seats in world.before.items():
        if server in seats:
            per_gpu = (1.0, *world.need(job, server, world.gpus(job, world.before)))
            used = [amount + seats[server] * each for amount, each in zip(used, per_gpu, strict=True)]
    has = (row.num_gpus, row.num_cpus, row.memory_bytes)
    return any(amount > most * (1 + 1e-9) for amount, most in zip(used, has, strict=True))


def _no_share(world: World, config: SchedulerConfig, told: Preemption) -> Says:
    wrong = [] if world.is_sharing else ["no policy of shares"]
    return [*wrong, "it has GPUs"] if told.job in world.after else wrong


def _goes_on(world: World, config: SchedulerConfig, told: Preemption) -> Says:
    return [] if told.job in world.after else ["it goes on nowhere"]


_RULES: dict[PreemptRule, Callable[[World, SchedulerConfig, Preemption], Says]] = {
    PreemptRule.POLICY_ORDER: _policy_order,
    PreemptRule.QUOTA_RECLAIM: _quota_reclaim,
    PreemptRule.OVER_SHARE: _over_share,
    PreemptRule.SERVER_GONE: _server_gone,
    PreemptRule.NO_SHARE: _no_share,
    PreemptRule.REPACKED: _goes_on,
    PreemptRule.MOVED: _goes_on,
}
