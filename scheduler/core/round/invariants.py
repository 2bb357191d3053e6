"""Safety rules of a plan, checked on every plan. A plan that breaks one is a defect and is never applied.

The rules on what jobs hold (``check_grants``) are also checked on the rounds of ``manage.py simulate --check``.
"""

from collections.abc import Mapping
from operator import itemgetter

import numpy as np

from scheduler.core.model.barred import NO_SERVERS, barred_rows
from scheduler.core.model.errors import PlanInvariantError
from scheduler.core.model.plan import Plan
from scheduler.core.model.queue_tree import queue_tree, subtree_sums
from scheduler.core.model.tables import NO_ROW, BoolArray, IntArray, Placements, Snapshot, seat_order
from scheduler.core.packing.kept_placements import seats_by_job

_TOLERANCE = 1e-6


def check(plan: Plan, snapshot: Snapshot) -> None:
    """Raise PlanInvariantError unless the plan is safe to apply to the snapshot."""
    check_grants(plan.grants, snapshot, riding=plan.riding)
    granted = _gpus_of(plan.grants, len(snapshot.jobs)) > 0
    _check_barred(plan, snapshot)
    _check_every_job_has_an_answer(plan, snapshot, granted)
    _check_running(plan, snapshot, granted)


_NO_GUESTS: Mapping[int, int] = {}


def check_grants(grants: Placements, snapshot: Snapshot, *, riding: Mapping[int, int] = _NO_GUESTS) -> None:
    """Raise PlanInvariantError unless the jobs of the snapshot may hold the grants.

    Args:
        grants: What jobs hold after the round, sorted by job, then server.
        snapshot: What the round looked at.
        riding: Guests and the jobs whose GPUs they share.
    """
    granted_gpus = _gpus_of(grants, len(snapshot.jobs))
    _check_capacity(grants, snapshot, riding)
    _check_riding(grants, riding)
    _check_gangs(grants, snapshot, granted_gpus)
    _check_queues(snapshot, granted_gpus, riding)


def _need(holds: bool | np.bool_, rule: str, facts: object = None) -> None:
    if not holds:
        raise PlanInvariantError(rule if facts is None else f"{rule}: {facts}")


def _check_capacity(grants: Placements, snapshot: Snapshot, riding: Mapping[int, int]) -> None:
    """No server gives more than it has."""
    servers = snapshot.servers
    # The GPUs of a guest are those of its host.
    own_gpus = np.where(np.isin(grants.job, list(riding)), 0, grants.num_gpus) if riding else grants.num_gpus
    given = (own_gpus, grants.cpus, grants.memory_bytes)
    capacity = (servers.num_gpus, servers.num_cpus, servers.memory_bytes)
    for name, amounts, most in zip(("GPUs", "cores", "bytes"), given, capacity, strict=True):
        used = np.bincount(grants.server, weights=amounts, minlength=len(servers))
        over = used > most * (1 + _TOLERANCE)
        _need(not over.any(), f"server gives more {name} than it has", servers.server_id[over][:5])
        _need(bool((amounts >= 0).all()), f"negative {name}")


def _check_riding(grants: Placements, riding: Mapping[int, int]) -> None:
    """A guest sits exactly where its host does, a host has one guest, and no guest is a host."""
    hosts = set(riding.values())
    _need(len(hosts) == len(riding), "a job has two guests")
    _need(not hosts & riding.keys(), "a guest has a guest")
    seats = seats_by_job(grants) if riding else {}
    for guest, host in riding.items():
        _need(guest in seats and seats[guest] == seats.get(host), "a guest does not sit with its host", guest)


def _check_gangs(grants: Placements, snapshot: Snapshot, granted_gpus: IntArray) -> None:
    """A gang runs whole, on as many servers as it may, with the cores and memory its owner insists on."""
    jobs, granted = snapshot.jobs, granted_gpus > 0
    _need(bool((grants.num_gpus > 0).all()), "empty seat")
    elastic = jobs.min_gpus < jobs.max_gpus
    whole = (granted_gpus == jobs.num_gpus) | (
        elastic & (granted_gpus >= jobs.min_gpus) & (granted_gpus <= jobs.max_gpus)
    )
    _need(bool(whole[granted].all()), "gang is not whole")
    seats = np.bincount(grants.job, minlength=len(jobs))
    bounded = granted & (jobs.max_servers > 0) & (seats > jobs.max_servers)
    _need(not bounded.any(), "gang is on too many servers", jobs.job_id[bounded][:5])
    pairs = grants.job * max(1, len(snapshot.servers)) + grants.server
    _need(bool((np.diff(pairs) > 0).all()), "grants are not sorted, or name a server twice for one job")
    for name, amounts, least in (
        ("cores", grants.cpus, jobs.min_cpus),
        ("bytes", grants.memory_bytes, jobs.min_memory_bytes),
    ):
        total = np.bincount(grants.job, weights=amounts, minlength=len(jobs))
        short = granted & (total < least * (1 - _TOLERANCE))
        _need(not short.any(), f"job gets fewer {name} than it insists on", jobs.job_id[short][:5])


def _check_barred(plan: Plan, snapshot: Snapshot) -> None:
    """No job comes to a server on which it may not start."""
    barred = barred_rows(snapshot)
    if not barred:
        return
    before = seats_by_job(snapshot.held)
    for row, seats in seats_by_job(plan.grants).items():
        closed = barred.get(row, NO_SERVERS)
        stays = {server for server, _ in before.get(row, ())}
        come = {server for server, _ in seats} & closed - stays
        _need(not come, "a job comes to a server that it may not use", come)


def _check_every_job_has_an_answer(plan: Plan, snapshot: Snapshot, granted: BoolArray) -> None:
    """Every job is granted or waits, never both, and a job that waits has a reason with numbers."""
    num_jobs = len(snapshot.jobs)
    times = np.bincount(plan.waiting.job, minlength=num_jobs)
    _need(bool((times + granted == 1).all()), "a job has no answer, or two")
    _need(len(plan.waiting.causes) == len(plan.waiting), "a job waits without a reason")
    _need(all(map(itemgetter(1), plan.waiting.causes)), "a job waits without numbers")
    order = np.array(plan.order, dtype=np.int64)
    _need(bool(((order >= 0) & (order < num_jobs)).all()), "the order names a job that is not there")
    _need(bool((np.bincount(order, minlength=num_jobs) == 1).all()), "the order does not name every job once")


def _check_running(plan: Plan, snapshot: Snapshot, granted: BoolArray) -> None:
    """A running job keeps exactly its seats, goes on with another number of GPUs, or is preempted."""
    num_jobs = len(snapshot.jobs)
    kept = np.zeros(num_jobs, dtype=np.bool_)
    kept[list(plan.kept)] = True
    stopped = np.zeros(num_jobs, dtype=np.bool_)
    stopped[plan.preemptions.job] = True
    _need(int(stopped.sum()) == len(plan.preemptions), "a job is preempted twice")
    resized = np.zeros(num_jobs, dtype=np.bool_)
    resized[list(plan.resized)] = True
    answers = kept.astype(np.int64) + stopped + resized
    one_each = bool((answers == snapshot.jobs.running).all())
    _need(one_each, "a running job is neither kept, resized nor stopped, or in two of these")
    _need(bool((granted | ~resized).all()), "a resized job gets nothing")
    others = _gpus_of(snapshot.held, num_jobs) != _gpus_of(plan.grants, num_jobs)
    _need(bool((others | ~resized).all()), "a resized job has as many GPUs as before")
    _need(_seats(snapshot.held, kept) == _seats(plan.grants, kept), "a kept job has other seats")
    by_job = plan.preemptions.by_job
    in_vain = plan.preemptions.job[(by_job != NO_ROW) & (~granted[by_job] | kept[by_job])]
    _need(not len(in_vain), "a job is preempted for one that gets nothing", snapshot.jobs.job_id[in_vain][:5])


def _seats(placements: Placements, rows: BoolArray) -> bytes:
    mine = rows[placements.job]
    job, server, gpus = placements.job[mine], placements.server[mine], placements.num_gpus[mine]
    by_job = seat_order(job, server)
    return np.stack((job[by_job], server[by_job], gpus[by_job])).astype(np.int64).tobytes()


def _gpus_of(placements: Placements, num_jobs: int) -> IntArray:
    return np.bincount(placements.job, weights=placements.num_gpus, minlength=num_jobs).astype(np.int64)


def _check_queues(snapshot: Snapshot, granted_gpus: IntArray, riding: Mapping[int, int]) -> None:
    """No queue gets more than it may hold; one that held more already does not grow."""
    jobs, tree = snapshot.jobs, queue_tree(snapshot.queues)
    before = subtree_sums(tree, jobs.queue, _gpus_of(snapshot.held, len(jobs)))
    own_gpus = granted_gpus.copy()
    own_gpus[list(riding)] = 0  # a guest uses no quota
    after = subtree_sums(tree, jobs.queue, own_gpus)
    over = (after > np.array(tree.cap, dtype=np.int64)) & (after > before)
    _need(not over.any(), "a queue gets more than it may hold", snapshot.queues.queue_id[over][:5])
