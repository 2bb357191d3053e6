"""How many GPUs each job gets in a round, under policies that choose that themselves.

The policy says the number; everything after it treats the number as fixed. A running job whose number changes is
resized here: it goes on with fewer or more GPUs, and is stopped only when it gets none.
"""

from dataclasses import dataclass, fields, replace

import numpy as np

from scheduler.core.config import LooksAtSizes, SchedulerConfig, SharePolicy
from scheduler.core.errors import PlanInvariantError
from scheduler.core.feasible import shapes_of
from scheduler.core.held import seats_by_job
from scheduler.core.line import policy_order
from scheduler.core.needs import Needs, needs_of
from scheduler.core.packing.board import Board
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.resize import Reseat, shrunk
from scheduler.core.plan import Evidence, Waiting, WaitReason
from scheduler.core.queues import QueueTree, fair_shares, subtree_sums
from scheduler.core.tables import BoolArray, FloatArray, IntArray, JobTable, Placements, Snapshot


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A snapshot in which every job asks for its share.

    Attributes:
        snapshot: ``jobs.num_gpus`` are the shares, or the least a job needs where it gets none; ``held`` is what
            running jobs hold once they are resized.
        changed: (n,) running jobs that are resized.
        unshared: (n,) jobs that could run but get no GPU.
        queue_gpus: (k,) GPUs that the jobs submitted to each queue itself could share.
        given_gpus: (k,) GPUs of them that were given.
    """

    snapshot: Snapshot
    changed: BoolArray
    unshared: BoolArray
    queue_gpus: IntArray
    given_gpus: IntArray


def with_shares(snapshot: Snapshot, config: SchedulerConfig, tree: QueueTree) -> Shared:
    """Return the snapshot with the shares of the policy; as it is under a policy that only orders.

    A running job that may not be stopped (not preemptible, younger than ``min_run_s``, preemption switched off) keeps
    the GPUs that it has, and the policy shares out the others; where it borrows, only until the owner wants them back.
    """
    jobs, policy = snapshot.jobs, config.policy
    none = np.zeros(len(jobs), dtype=np.bool_)
    nothing = np.zeros(len(tree.quota), dtype=np.int64)
    if not isinstance(policy, SharePolicy) or not len(jobs):
        return Shared(snapshot=snapshot, changed=none, unshared=none, queue_gpus=nothing, given_gpus=nothing)
    most = _most_gpus(snapshot, config)
    held = np.bincount(snapshot.held.job, weights=snapshot.held.num_gpus, minlength=len(jobs)).astype(np.int64)
    young = snapshot.now_s - jobs.held_at_s < config.min_run_s
    fixed = jobs.running & (held >= jobs.min_gpus) & (held <= most)
    fixed &= ~jobs.preemptible | young | (not config.preempt)
    fixed &= ~_taken_back(snapshot, config, tree, fixed, held, (most >= jobs.min_gpus) & ~fixed)
    asking = (most >= jobs.min_gpus) & ~fixed
    shares, queue_gpus = _ask(replace(snapshot, jobs=replace(jobs, max_gpus=most)), policy, tree, asking, held * fixed)
    given = np.bincount(jobs.queue, weights=shares, minlength=len(tree.quota)).astype(np.int64)
    wanted = replace(snapshot, jobs=_with_num_gpus(jobs, np.where(shares > 0, shares, jobs.min_gpus)))
    seated = _reseated(wanted, config, tree, shares, held)
    elastic = jobs.min_gpus < jobs.max_gpus  # a rigid job that lost a server begins again elsewhere
    changed = jobs.running & elastic & (held > 0) & (shares > 0) & (seated.jobs.num_gpus != held)
    return Shared(
        snapshot=seated,
        changed=changed,
        unshared=asking & (shares == 0),
        queue_gpus=queue_gpus,
        given_gpus=given,
    )


def _taken_back(
    snapshot: Snapshot, config: SchedulerConfig, tree: QueueTree, fixed: BoolArray, held: IntArray, asking: BoolArray
) -> BoolArray:
    """Return (n,) jobs that keep their GPUs otherwise, but borrow what a queue needs to get its quota.

    From the queue that is furthest over what it is guaranteed; there the job that loses the least work, then the newest
    placement, those that are not preemptible last.
    """
    jobs, size = snapshot.jobs, len(tree.quota)
    taken = np.zeros_like(fixed)
    if not fixed.any():
        return taken
    presses = asking & (jobs.running | (jobs.waited_s >= config.reclaim_after_s))
    fixed_gpus = np.bincount(jobs.queue, weights=held * fixed, minlength=size).astype(np.int64)
    demand = np.bincount(jobs.queue, weights=jobs.max_gpus * presses, minlength=size).astype(np.int64) + fixed_gpus
    capacity = int(snapshot.servers.num_gpus.sum())
    guaranteed = whole_gpus(replace(tree, cap=tree.quota), demand, capacity)
    order = np.lexsort((jobs.job_id, -jobs.held_at_s, jobs.unsaved_s, ~jobs.preemptible))
    rows = order[fixed[order]].tolist()
    while np.maximum(fixed_gpus, guaranteed).sum() > capacity:
        over = fixed_gpus - guaranteed
        borrowers = [row for row in rows if not taken[row] and over[jobs.queue[row]] > 0]
        if not borrowers:
            break
        row = max(borrowers, key=lambda row: over[jobs.queue[row]])  # the first of them in ``order``
        taken[row] = True
        fixed_gpus[jobs.queue[row]] -= held[row]
    return taken


def explained(waiting: list[Waiting], shared: Shared, tree: QueueTree) -> list[Waiting]:
    """Return the waiting jobs; those without a share say so."""
    if not shared.unshared.any():
        return waiting
    jobs, queues = shared.snapshot.jobs, shared.snapshot.queues
    total = int(shared.snapshot.servers.num_gpus.sum())
    told = []
    for entry in waiting:
        if not shared.unshared[entry.job] or not total:
            told.append(entry)
            continue
        queue = int(jobs.queue[entry.job])
        held, limit = int(shared.given_gpus[queue]), int(shared.queue_gpus[queue])
        evidence: Evidence = {"needed_gpus": int(jobs.num_gpus[entry.job]), "total_gpus": total}
        at_cap = limit == tree.cap[queue] < total
        if at_cap or limit < int(shared.queue_gpus.sum()):
            most = int(queues.max_gpus[queue])
            reason = WaitReason.QUEUE_MAX if at_cap and limit == most else WaitReason.QUEUE_QUOTA
            evidence |= {"queue_id": int(queues.queue_id[queue]), "queue_held_gpus": held}
            evidence |= {"queue_quota_gpus": tree.quota[queue], "queue_max_gpus": most, "may_borrow": int(not at_cap)}
        else:
            reason = WaitReason.BEHIND_POLICY_ORDER
            evidence |= {"free_gpus": max(0, total - held), "ahead_gpus": held}
        told.append(replace(entry, reason=reason, evidence=evidence))
    return told


def _most_gpus(snapshot: Snapshot, config: SchedulerConfig) -> IntArray:
    """Return (n,) most GPUs that each job can use on the present servers; below its least where it can never run."""
    jobs, servers, mechanism = snapshot.jobs, snapshot.servers, config.mechanism
    least = _with_num_gpus(jobs, jobs.min_gpus)
    needs = needs_of(least, servers, trims=mechanism.trims, insists=mechanism.insists)
    shapes = shapes_of(least, servers, needs, ())
    return np.minimum(jobs.max_gpus, shapes.largest_gang[shapes.shape])


def _with_num_gpus(jobs: JobTable, num_gpus: IntArray) -> JobTable:
    """Return the jobs with other sizes; what they need for full speed goes with the size."""
    by = num_gpus / np.maximum(jobs.num_gpus, 1)
    return replace(
        jobs,
        num_gpus=num_gpus,
        demand_cpus=jobs.demand_cpus * by,
        demand_memory_bytes=jobs.demand_memory_bytes * by,
    )


def _ask(
    snapshot: Snapshot, policy: SharePolicy, tree: QueueTree, asking: BoolArray, fixed_gpus: IntArray
) -> tuple[IntArray, IntArray]:
    """Return (n,) shares, and (k,) GPUs that each queue could share out.

    Every queue shares out its own part. What its jobs cannot use goes to the others.
    """
    jobs, num_queues = snapshot.jobs, len(tree.quota)
    capacity = int(snapshot.servers.num_gpus.sum())
    fixed = np.bincount(jobs.queue, weights=fixed_gpus, minlength=num_queues).astype(np.int64)
    demand = np.bincount(jobs.queue, weights=jobs.max_gpus * asking, minlength=num_queues).astype(np.int64) + fixed
    shares = fixed_gpus.copy()
    asked = np.full(num_queues, -1, dtype=np.int64)
    first = whole_gpus(tree, demand, capacity)
    while True:
        gpus = _beside_fixed(whole_gpus(tree, demand, capacity), fixed, capacity)
        for queue in np.flatnonzero(gpus != asked).tolist():
            rows = np.flatnonzero(asking & (jobs.queue == queue))
            shares[rows] = _shares_in_queue(snapshot, policy, rows, int(gpus[queue])) if len(rows) else 0
        asked = gpus
        used = np.bincount(jobs.queue, weights=shares, minlength=num_queues).astype(np.int64)
        idle = (used < gpus + fixed) & (used < demand)
        if not idle.any() or not (~idle & (demand > used)).any():
            return shares, np.maximum(first, used)
        demand = np.where(idle, used, demand)


def _beside_fixed(gpus: IntArray, fixed: IntArray, capacity: int) -> IntArray:
    """Return (k,) what queues may give beside the GPUs of jobs that keep theirs; those may be more than their part."""
    rest: IntArray = np.maximum(0, gpus - fixed)
    over = int(rest.sum() + fixed.sum()) - capacity
    while over > 0:
        queue = int(rest.argmax())
        rest[queue] -= 1
        over -= 1
    return rest


def _shares_in_queue(snapshot: Snapshot, policy: SharePolicy, rows: IntArray, num_gpus: int) -> IntArray:
    part = snapshot if len(rows) == len(snapshot.jobs) else _only(snapshot, rows)
    shares = policy.shares(part, num_gpus)
    bounded = (shares == 0) | ((shares >= part.jobs.min_gpus) & (shares <= part.jobs.max_gpus))
    if not bounded.all() or int(shares.sum()) > num_gpus:
        raise PlanInvariantError(f"{policy.name} gives {shares.tolist()} of {num_gpus} GPUs")
    return shares


def _only(snapshot: Snapshot, rows: IntArray) -> Snapshot:
    """Return the snapshot with these jobs alone."""
    jobs, held = snapshot.jobs, snapshot.held
    columns = {f.name: getattr(jobs, f.name)[rows] for f in fields(jobs) if f.name != "profiles"}
    number = np.full(len(jobs), -1, dtype=np.int64)
    number[rows] = np.arange(len(rows))
    theirs = number[held.job] >= 0
    picked = {f.name: getattr(held, f.name)[theirs] for f in fields(held)}
    picked["job"] = number[picked["job"]]
    return replace(snapshot, jobs=JobTable(**columns, profiles=jobs.profiles), held=Placements(**picked))


def whole_gpus(tree: QueueTree, demand: IntArray, capacity_gpus: int) -> IntArray:
    """Return (k,) whole GPUs for the jobs submitted to each queue itself: its fair share, largest remainders first."""
    shares = fair_shares(tree, demand, capacity_gpus)
    own = np.array([shares[row] - shares[tree.children[row]].sum() for row in range(len(shares))])
    own = np.minimum(np.maximum(own, 0.0), demand)
    gpus: IntArray = np.floor(own + 1e-9).astype(np.int64)
    left = int(np.floor(own.sum() + 1e-9) - gpus.sum())
    for queue in np.argsort(-np.round(own - gpus, 9), kind="stable").tolist():  # float dust breaks no tie
        inside = subtree_sums(tree, np.arange(len(gpus)), gpus)
        full = gpus[queue] >= demand[queue] or any(inside[node] >= tree.cap[node] for node in tree.paths[queue])
        if left > 0 and not full:
            gpus[queue] += 1
            left -= 1
    return gpus


def _reseated(
    snapshot: Snapshot, config: SchedulerConfig, tree: QueueTree, shares: IntArray, held_gpus: IntArray
) -> Snapshot:
    """Return the snapshot with the seats that running jobs have once they are resized, and with shares that fit."""
    jobs, mechanism = snapshot.jobs, config.mechanism
    before = seats_by_job(snapshot.held)
    stay = {row: shrunk(seats, int(shares[row])) for row, seats in before.items() if shares[row]}
    has_share, elastic = shares > 0, jobs.min_gpus < jobs.max_gpus
    news = has_share & elastic & (held_gpus == 0)
    grows = has_share & elastic & (held_gpus > 0) & (held_gpus < shares)
    if grows.any() or news.any():
        needs = needs_of(jobs, snapshot.servers, trims=mechanism.trims, insists=mechanism.insists)
        reseat = _reseat(snapshot, config, tree, needs, stay)
        order = policy_order(snapshot, config)
        reseat.grow(order[grows[order]].tolist())
        reseat.start(order[(has_share & (held_gpus == 0))[order]].tolist())
        stay = {row: reseat.seats[row] for row in stay}
        snapshot = replace(snapshot, jobs=_with_num_gpus(jobs, np.array(reseat.num_gpus, dtype=np.int64)))
    if stay == before:
        return snapshot
    return replace(snapshot, held=_placements(snapshot, stay))


def _reseat(
    snapshot: Snapshot, config: SchedulerConfig, tree: QueueTree, needs: Needs, seats: dict[int, Seats]
) -> Reseat:
    jobs, releasing = snapshot.jobs, snapshot.releasing
    columns = (releasing.server, releasing.num_gpus, releasing.cpus, releasing.memory_bytes)
    board = Board(
        jobs=jobs,
        servers=snapshot.servers,
        needs=needs,
        tree=tree,
        held=seats,
        releasing=[*zip(*(column.tolist() for column in columns), strict=True)],
        by_size=isinstance(config.locality, LooksAtSizes),
    )
    kinds = config.locality.kinds(jobs, snapshot.now_s)
    return Reseat(
        board,
        config.locality,
        num_gpus=jobs.num_gpus.tolist(),
        min_gpus=jobs.min_gpus.tolist(),
        max_servers=jobs.max_servers.tolist(),
        kind=[*zip(*(column.tolist() for column in kinds), strict=True)] if kinds else [()] * len(jobs),
    )


def _placements(snapshot: Snapshot, seats: dict[int, Seats]) -> Placements:
    """Return the seats as a table, with the cores and bytes that belong to the GPUs of each server."""
    servers = snapshot.servers
    rows = [(job, server, gpus) for job, at in sorted(seats.items()) for server, gpus in at]
    job, server, gpus = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    part: FloatArray = gpus / np.maximum(servers.num_gpus[server], 1)
    return Placements(
        job=job,
        server=server,
        num_gpus=gpus,
        cpus=part * servers.num_cpus[server],
        memory_bytes=part * servers.memory_bytes[server],
    )
