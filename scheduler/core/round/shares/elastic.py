"""Decide how many GPUs each job gets in a round under a share policy, and resize running jobs to it.

Everything after this treats the numbers as fixed. A running job whose number changes goes on with fewer or more GPUs,
and is stopped only when it gets none. GPUs of shares that fit nowhere are lent to jobs without a share (``loans.py``);
the policy is asked as if those waited.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from scheduler.core.model.barred import barred_rows
from scheduler.core.model.cpu_memory_bounds import needs_of
from scheduler.core.model.errors import PlanInvariantError
from scheduler.core.model.queue_tree import QueueTree
from scheduler.core.model.tables import (
    NO_ROW,
    BoolArray,
    FloatArray,
    IntArray,
    JobTable,
    Snapshot,
    only_jobs,
)
from scheduler.core.packing.board import Board
from scheduler.core.packing.draft import Seats
from scheduler.core.packing.elastic_seats import ElasticSeats, shrunk
from scheduler.core.packing.kept_placements import placed, seats_by_job
from scheduler.core.round.claim_order import by_keys
from scheduler.core.round.config import SchedulerConfig, SharePolicy
from scheduler.core.round.feasibility import shapes_of
from scheduler.core.round.introspection_loop import without_seats
from scheduler.core.round.round_state import board_of
from scheduler.core.round.shares.queue_shares import (
    beside_kept,
    by_queue,
    most_on_path,
    pressing,
    room_on_path,
    taken_back,
    whole_gpus,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """A snapshot in which every job asks for its share.

    Attributes:
        snapshot: ``jobs.num_gpus`` are the shares, or the least a job needs where it gets none; ``held`` is what
            running jobs hold once they are resized.
        keys: (n,) keys of the policy, by their shares.
        order: (n,) job rows by these keys.
        changed: (n,) running jobs that are resized, or have to go elsewhere or wait for their share.
        unshared: (n,) jobs that could run but get no GPU.
        reclaimed: (n,) jobs that may not be stopped, but borrow what another queue takes back.
        home: Seats of the jobs of ``unshared`` that run.
        still_lent: (n,) jobs on lent GPUs that keep them because they may not be stopped.
        queue_gpus: (k,) GPUs that the jobs submitted to each queue itself could share.
        given_gpus: (k,) GPUs of them that were given.
    """

    snapshot: Snapshot
    keys: FloatArray
    order: IntArray
    changed: BoolArray
    unshared: BoolArray
    reclaimed: BoolArray
    home: Mapping[int, Seats]
    still_lent: BoolArray
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
        keys = policy.priority(snapshot)
        return Shared(
            snapshot=snapshot,
            keys=keys,
            order=by_keys(jobs, keys),
            changed=none,
            unshared=none,
            reclaimed=none,
            home={},
            still_lent=none,
            queue_gpus=nothing,
            given_gpus=nothing,
        )
    most = _most_gpus(snapshot, config)
    held = np.bincount(snapshot.held.job, weights=snapshot.held.num_gpus, minlength=len(jobs)).astype(np.int64)
    could = replace(snapshot, jobs=replace(jobs, max_gpus=most))
    keeps, reclaimed, guaranteed = _keeping(could, config, tree, held)
    asking = (most >= jobs.min_gpus) & ~keeps
    lent = jobs.lent & jobs.running & ~keeps
    shares, queue_gpus = _ask(_unlent(could, lent), policy, tree, asking, held * keeps, guaranteed)
    given, unshared = by_queue(tree, jobs, shares), asking & (shares == 0)
    wanted = replace(snapshot, jobs=_with_num_gpus(jobs, np.where(shares > 0, shares, jobs.min_gpus)))
    keys = policy.priority(wanted)
    order = by_keys(wanted.jobs, keys)
    seated, leaves = _reseated(wanted, config, tree, order, shares, held, lent)
    elastic = jobs.min_gpus < jobs.max_gpus  # a rigid job that lost a server begins again elsewhere
    changed = jobs.running & elastic & (held > 0) & (asking | keeps) & (seated.jobs.num_gpus != held)
    changed[leaves] = True
    changed |= jobs.running & (held >= jobs.min_gpus) & ~asking & ~keeps  # its least fits on no servers
    return Shared(
        snapshot=seated,
        keys=keys,
        order=order,
        changed=changed,
        unshared=unshared,
        reclaimed=reclaimed,
        home={row: seats for row, seats in seats_by_job(snapshot.held).items() if unshared[row]},
        still_lent=jobs.lent & keeps,
        queue_gpus=queue_gpus,
        given_gpus=given,
    )


def _keeping(
    snapshot: Snapshot, config: SchedulerConfig, tree: QueueTree, held: IntArray
) -> tuple[BoolArray, BoolArray, IntArray]:
    """Return (n,) jobs that keep the GPUs they hold, (n,) those that would but for what they borrow, and (k,) GPUs that
    queues want and have a right to.
    """
    jobs, most = snapshot.jobs, snapshot.jobs.max_gpus
    young = snapshot.now_s - jobs.held_at_s < config.min_run_s
    keeps = jobs.running & (held >= jobs.min_gpus) & (held <= most)
    keeps &= ~jobs.preemptible | young | (not config.preempt)
    capacity = int(snapshot.servers.num_gpus.sum())
    wants = (most >= jobs.min_gpus) & ~keeps & (jobs.running | (jobs.waited_s >= config.reclaim_after_s))
    guaranteed = pressing(tree, jobs, wants, by_queue(tree, jobs, held * keeps), capacity)
    reclaimed = taken_back(tree, jobs, keeps, held, guaranteed, capacity)
    return keeps & ~reclaimed, reclaimed, guaranteed


def _unlent(snapshot: Snapshot, lent: BoolArray) -> Snapshot:
    """Return the snapshot in which jobs on lent GPUs wait and have never run."""
    jobs = snapshot.jobs
    if not lent.any():
        return snapshot
    jobs = replace(jobs, first_start_s=np.where(lent, np.inf, jobs.first_start_s))
    return without_seats(replace(snapshot, jobs=jobs), np.flatnonzero(lent))


def _most_gpus(snapshot: Snapshot, config: SchedulerConfig) -> IntArray:
    """Return (n,) most GPUs that each job can use on the present servers; below its least where it can never run."""
    jobs, servers, mechanism = snapshot.jobs, snapshot.servers, config.mechanism
    least = _with_num_gpus(jobs, jobs.min_gpus)
    needs = needs_of(least, servers, trims=mechanism.trims, insists=mechanism.insists, barred=barred_rows(snapshot))
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
    snapshot: Snapshot,
    policy: SharePolicy,
    tree: QueueTree,
    asking: BoolArray,
    kept_gpus: IntArray,
    guaranteed: IntArray,
) -> tuple[IntArray, IntArray]:
    """Return (n,) shares, and (k,) GPUs that each queue could share out.

    Every queue shares out its own part. What its jobs cannot use goes to the others: first to a gang that is wider than
    the part of its own queue, where it fits in what the queues around it leave, then to jobs that can use more.
    """
    jobs, asking, shares = snapshot.jobs, asking.copy(), kept_gpus.copy()
    capacity = int(snapshot.servers.num_gpus.sum())
    kept = by_queue(tree, jobs, kept_gpus)
    demand = by_queue(tree, jobs, jobs.max_gpus * asking) + kept
    asked = np.full(len(tree.quota), -1, dtype=np.int64)
    first = whole_gpus(tree, demand, capacity)
    while True:
        gpus = beside_kept(tree, whole_gpus(tree, demand, capacity), kept, guaranteed, capacity)
        for queue in np.flatnonzero(gpus != asked).tolist():
            rows = np.flatnonzero(asking & (jobs.queue == queue))
            shares[rows] = _shares_in_queue(snapshot, policy, rows, int(gpus[queue])) if len(rows) else 0
        asked = gpus
        used = by_queue(tree, jobs, shares)
        idle = (used < gpus + kept) & (used < demand)
        wide = _wider_than_its_part(jobs, tree, asking & (shares == 0), gpus + kept - used, used, capacity)
        if wide != NO_ROW:
            asking[wide] = False
            shares[wide] = jobs.min_gpus[wide]
            kept[jobs.queue[wide]] += jobs.min_gpus[wide]
            asked[jobs.queue[wide]] = -1
        elif idle.any() and (~idle & (demand > used)).any():
            demand = np.where(idle, used, demand)
        else:
            return shares, np.maximum(first, used)


def _wider_than_its_part(
    jobs: JobTable, tree: QueueTree, unserved: BoolArray, left: IntArray, used: IntArray, capacity_gpus: int
) -> int:
    """Return the first job that fits only in what its queue and other queues leave together; NO_ROW for none.

    Running jobs come first; of the others the first to arrive, so that gangs of several queues take turns.
    """
    if len(tree.quota) == 1 or not unserved.any():
        return NO_ROW
    around = np.minimum(most_on_path(tree, left), room_on_path(tree, used, capacity_gpus))
    rows = np.flatnonzero(unserved & (jobs.min_gpus > left[jobs.queue]) & (jobs.min_gpus <= around[jobs.queue]))
    if not len(rows):
        return NO_ROW
    return int(rows[np.lexsort((jobs.job_id[rows], jobs.arrival_s[rows], ~jobs.running[rows]))[0]])


def _shares_in_queue(snapshot: Snapshot, policy: SharePolicy, rows: IntArray, num_gpus: int) -> IntArray:
    part = snapshot if len(rows) == len(snapshot.jobs) else only_jobs(snapshot, rows)
    shares = policy.shares(part, num_gpus)
    bounded = (shares == 0) | ((shares >= part.jobs.min_gpus) & (shares <= part.jobs.max_gpus))
    if not bounded.all() or int(shares.sum()) > num_gpus:
        raise PlanInvariantError(f"{policy.name} gives {shares.tolist()} of {num_gpus} GPUs")
    return shares


def _reseated(
    snapshot: Snapshot,
    config: SchedulerConfig,
    tree: QueueTree,
    order: IntArray,
    shares: IntArray,
    held_gpus: IntArray,
    lent: BoolArray,
) -> tuple[Snapshot, list[int]]:
    """Return the snapshot with the seats that running jobs have once they are resized, and with shares that fit.

    Return also the jobs that ran on lent GPUs, have a share now, and find their seats taken at their turn.
    """
    jobs, mechanism = snapshot.jobs, config.mechanism
    before = seats_by_job(snapshot.held)
    has_share, elastic = shares > 0, jobs.min_gpus < jobs.max_gpus
    given = {row: shrunk(seats, int(shares[row])) for row, seats in before.items() if shares[row]}
    stay = {row: seats for row, seats in given.items() if not lent[row]}
    begins = has_share & (lent | (held_gpus == 0))
    grows = has_share & elastic & ~begins & (held_gpus < shares)
    leaves: list[int] = []
    if grows.any() or (begins & (elastic | lent)).any():
        needs = needs_of(
            jobs, snapshot.servers, trims=mechanism.trims, insists=mechanism.insists, barred=barred_rows(snapshot)
        )
        board = board_of(snapshot, config, tree, needs, placed(stay, snapshot.servers))
        reseat = reseat_on(board, snapshot, config)
        leaving = range(len(jobs), len(jobs) + len(snapshot.releasing))
        whole = elastic | (held_gpus == shares)  # a rigid job that lost a server begins again elsewhere
        home = {row: seats for row, seats in given.items() if lent[row] and whole[row]}
        at_home = reseat.serve(order[(grows | begins)[order]].tolist(), home=home, leaving=leaving)
        leaves = [row for row in given if lent[row] and row not in at_home]
        stay = {row: reseat.seats[row] for row in given if row in stay or row in at_home}
        snapshot = replace(snapshot, jobs=_with_num_gpus(jobs, np.array(reseat.num_gpus, dtype=np.int64)))
    if stay == before:
        return snapshot, leaves
    return replace(snapshot, held=placed(stay, snapshot.servers)), leaves


def reseat_on(board: Board, snapshot: Snapshot, config: SchedulerConfig) -> ElasticSeats:
    """Return the search for seats on the board, for the numbers of GPUs that the jobs ask for."""
    jobs = snapshot.jobs
    kinds = config.locality.kinds(jobs, snapshot.now_s)
    return ElasticSeats(
        board,
        config.locality,
        num_gpus=jobs.num_gpus.tolist(),
        min_gpus=jobs.min_gpus.tolist(),
        max_servers=jobs.max_servers.tolist(),
        kind=[*zip(*(column.tolist() for column in kinds), strict=True)] if kinds else [()] * len(jobs),
    )
