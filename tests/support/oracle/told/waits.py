"""Whether what a round says of a job that waits is true of the cluster after the round."""

from collections.abc import Callable

import numpy as np

from scheduler.core.model.plan import Evidence, Waiting, WaitReason
from tests.support.oracle.told.world import NOTHING, World

Says = list[str]  # what is wrong


def false_wait(world: World, told: Waiting) -> Says:
    """Return what is not true of the reason, empty when all of it is."""
    job, evidence = told.job, told.evidence
    table = world.snapshot.jobs
    wrong = []
    needed = int(evidence.get("needed_gpus", table.num_gpus[job]))
    if not table.min_gpus[job] <= needed <= table.max_gpus[job]:
        wrong.append("needed_gpus")
    if job in world.after:
        wrong.append("it runs")
    free = sum(world.free)
    if "free_gpus" in evidence and not free - sum(world.leaving) <= int(evidence["free_gpus"]) <= free:
        wrong.append(f"free_gpus is {free}")
    if "largest_free_gpus" in evidence:
        least = max((gpus - left for gpus, left in zip(world.free, world.leaving, strict=True)), default=0)
        if not least <= int(evidence["largest_free_gpus"]) <= max(world.free, default=0):
            wrong.append("largest_free_gpus")
    return wrong + _CLAIMS[told.reason](world, job, needed, evidence)


def _no_server(world: World, job: int, needed: int, evidence: Evidence) -> Says:
    return ["there are GPUs"] if world.total else []


def _never(world: World, job: int, needed: int, evidence: Evidence) -> Says:
    most = world.room(job, world.size, NOTHING, gpus=needed)
    wrong = ["an empty cluster could hold it"] if most >= needed else []
    return wrong if evidence["largest_possible_gpus"] == most else [*wrong, f"largest_possible_gpus is {most}"]


def _isolation(world: World, job: int, needed: int, evidence: Evidence) -> Says:
    barred = world.barred(job)
    wrong = [] if evidence["barred_servers"] == len(barred) and barred else ["barred_servers"]
    if world.has_room(job, needed, barred | world.unprepared(job)):
        wrong.append("other servers have room")
    if world.room(job, world.size, NOTHING, gpus=needed) < needed:
        wrong.append("the barred servers would not help")
    return wrong


def _preparing(world: World, job: int, needed: int, evidence: Evidence) -> Says:
    unprepared = world.unprepared(job)
    ready = world.ready(job)
    wrong = [] if ready is not None and evidence["ready_servers"] == len(ready) else ["ready_servers"]
    if world.has_room(job, needed, unprepared | world.barred(job)):
        wrong.append("ready servers have room")
    if world.room(job, world.size, world.barred(job), gpus=needed) < needed:
        wrong.append("more ready servers would not help")
    return wrong


def _no_capacity(world: World, job: int, needed: int, evidence: Evidence) -> Says:
    return ["enough GPUs are free"] if int(evidence["free_gpus"]) >= needed else []


def _behind(world: World, job: int, needed: int, evidence: Evidence) -> Says:
    if "first_needs_gpus" in evidence:
        stopped = set(
            np.flatnonzero(world.snapshot.jobs.running).tolist()
        )  # one that had to stop keeps its place before those that have not started
        first = [
            other
            for other in {*world.ahead(job), *stopped}
            if world.queue[other] == world.queue[job]
            and other not in world.after
            and world.snapshot.jobs.num_gpus[other] == evidence["first_needs_gpus"]
        ]
        return [] if first else ["no job ahead waits for that"]
    if int(evidence["free_gpus"]) >= needed:
        return ["enough GPUs are free"]
    return []


def _behind_in_order(world: World, job: int, needed: int, evidence: Evidence) -> Says:
    wrong = _behind(world, job, needed, evidence)
    if "ahead_gpus" in evidence:
        ahead = sum(world.gpus(other, world.after) for other in world.ahead(job))
        if evidence["ahead_gpus"] != ahead:
            wrong.append(f"ahead_gpus is {ahead}")
        if world.total - ahead >= needed:
            wrong.append("jobs ahead leave it enough")
    return wrong


def _fragmentation(world: World, job: int, needed: int, evidence: Evidence) -> Says:
    free = [gpus - left for gpus, left in zip(world.free, world.leaving, strict=True)]
    if evidence.get("too_spread"):
        return [] if world.room(job, world.free, NOTHING) >= needed and world.is_choosy else ["nothing stops it"]
    return ["servers have enough free"] if world.room(job, free, NOTHING) >= needed else []


def _cpu_or_memory(world: World, job: int, needed: int, evidence: Evidence) -> Says:
    closed = world.barred(job) | world.unprepared(job)
    wrong = []
    if world.room(job, world.size, closed) < needed:
        wrong.append("open servers have too few GPUs")
    if world.has_room(job, needed, closed):
        wrong.append("cores and memory are enough")
    return wrong


def _queue_row(world: World, evidence: Evidence, key: str = "queue_id") -> int:
    ids: list[int] = world.snapshot.queues.queue_id.tolist()
    return ids.index(int(evidence[key]))


def _full(world: World, job: int, needed: int, evidence: Evidence) -> Says:
    queue = _queue_row(world, evidence)
    wrong = [] if queue in world.path(world.queue[job]) else ["not its queue"]
    held = world.held(queue, world.after)
    if evidence["queue_held_gpus"] != held:
        wrong.append(f"queue_held_gpus is {held}")
    if held + needed <= world.cap(queue):
        wrong.append("the queue may hold it")
    return wrong


def _queue_max(world: World, job: int, needed: int, evidence: Evidence) -> Says:
    most = int(world.snapshot.queues.max_gpus[_queue_row(world, evidence)])
    return _full(world, job, needed, evidence) + ([] if evidence["queue_max_gpus"] == most else ["queue_max_gpus"])


def _queue_quota(world: World, job: int, needed: int, evidence: Evidence) -> Says:
    queue = _queue_row(world, evidence)
    quota = world.quota(queue)
    wrong = [] if evidence["queue_quota_gpus"] == quota else ["queue_quota_gpus"]
    if not evidence["may_borrow"]:
        return wrong + _full(world, job, needed, evidence)
    held = world.held(queue, world.after)
    if evidence["queue_held_gpus"] != held:
        wrong.append(f"queue_held_gpus is {held}")
    if queue not in world.path(world.queue[job]):
        wrong.append("not its queue")
    if held + needed <= quota:
        wrong.append("its quota has room")
    if "other_queue_id" in evidence:
        other = _queue_row(world, evidence, "other_queue_id")
        later = [
            mate
            for mate in world.jobs
            if world.queue[mate] == other and mate in world.after and world.order.index(mate) > world.order.index(job)
        ]
        if not later or other == world.queue[job]:
            wrong.append("the other queue overtakes it with no job")
        if not evidence["other_borrows"] and not any(_is_within_quota(world, mate) for mate in later):
            wrong.append("no job of the other queue is within its quota")
    elif held + sum(world.free) >= world.total:
        wrong.append("other queues hold nothing")
    return wrong


def _is_within_quota(world: World, job: int) -> bool:
    """Return whether a queue of its path has quota for it; of jobs that run, each before it that fits uses some up."""
    return any(job in _covered(world, node) for node in world.path(world.queue[job]))


def _covered(world: World, queue: int) -> set[int]:
    left, covered = world.quota(queue), set()
    mine = set(world.within(queue)) & set(world.after)
    first = set() if world.is_preemptive else set(world.plan.kept)
    for job in sorted(mine, key=lambda job: (job not in first, world.order.index(job))):
        if world.gpus(job, world.after) <= left:
            left -= world.gpus(job, world.after)
            covered.add(job)
    return covered


def _user_limit(world: World, job: int, needed: int, evidence: Evidence) -> Says:
    table, limit = world.snapshot.jobs, int(world.snapshot.queues.user_max_gpus[world.queue[job]])
    mates = [
        other
        for other in world.jobs
        if other != job and world.queue[other] == world.queue[job] and table.owner[other] == table.owner[job]
    ]
    ahead = set(world.ahead(job))
    runs = sum(int(table.max_gpus[mate]) for mate in mates if table.running[mate])
    waits = sum(
        int(table.max_gpus[mate])
        for mate in mates
        if (mate in ahead or world.is_sharing) and not table.running[mate]  # shares come first in an order of their own
    )
    held = int(evidence["user_held_gpus"])
    wrong = [] if evidence["user_max_gpus"] == limit and held + needed > limit else ["the limit allows it"]
    return wrong if held <= runs + waits else [*wrong, "user_held_gpus"]


def _array_limit(world: World, job: int, needed: int, evidence: Evidence) -> Says:
    ids = world.snapshot.jobs.job_id.tolist()
    array = next(array for array in world.snapshot.arrays if ids[job] in array.jobs)
    held = {wait.job for wait in world.plan.waiting if wait.reason in (WaitReason.ARRAY_LIMIT, WaitReason.DEPENDENCY)}
    before_it = [one for one in array.jobs if one in ids and ids.index(one) not in held]
    wrong = [] if evidence["array_most"] == array.most else ["array_most"]
    if not array.most <= int(evidence["array_at_work"]) == len(before_it) + array.outside:
        wrong.append(f"array_at_work is {len(before_it) + array.outside}")
    return wrong


def _dependency(world: World, job: int, needed: int, evidence: Evidence) -> Says:
    number = int(world.snapshot.jobs.job_id[job])
    awaited = [after for after in world.snapshot.after if number in after.jobs]
    true = any(evidence["first_number"] in after.on and evidence["jobs"] == len(after.on) for after in awaited)
    return [] if true else ["it waits for none of them"]


_CLAIMS: dict[WaitReason, Callable[[World, int, int, Evidence], Says]] = {
    WaitReason.NO_SERVER: _no_server,
    WaitReason.NEVER_FEASIBLE: _never,
    WaitReason.ISOLATION: _isolation,
    WaitReason.PREPARING_ENVIRONMENT: _preparing,
    WaitReason.NO_CAPACITY: _no_capacity,
    WaitReason.BEHIND_POLICY_ORDER: _behind_in_order,
    WaitReason.FRAGMENTATION: _fragmentation,
    WaitReason.CPU_OR_MEMORY: _cpu_or_memory,
    WaitReason.QUEUE_MAX: _queue_max,
    WaitReason.QUEUE_QUOTA: _queue_quota,
    WaitReason.USER_LIMIT: _user_limit,
    WaitReason.ARRAY_LIMIT: _array_limit,
    WaitReason.DEPENDENCY: _dependency,
}
