"""What every plan holds, for every policy and mechanism."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from scheduler.core.model.cpu_memory_bounds import must_have, needs_of
from scheduler.core.model.plan import Plan, PreemptRule
from scheduler.core.model.queue_tree import QueueTree, queue_tree, subtree_sums
from scheduler.core.model.tables import NO_ROW, FloatArray, IntArray, Placements, Snapshot
from scheduler.core.round.config import Mechanism, SchedulerConfig, SharePolicy
from scheduler.core.round.plan_round import plan_round
from scheduler.mechanisms import MECHANISMS
from scheduler.placement import LOCALITIES
from scheduler.policies import POLICIES
from tests.support.simulator.strategies import carried_out, shuffled, snapshots
from tests.support.suite.examples import tried

# Every policy that orders jobs with every mechanism, and every locality under one policy that preempts and one that
# does not: what a locality does never depends on where the order comes from.
EVERY = {
    f"{p}-{where}-{m}": SchedulerConfig(policy=POLICIES[p](), locality=LOCALITIES[where](), mechanism=MECHANISMS[m]())
    for p in POLICIES
    for where in LOCALITIES
    for m in MECHANISMS
    if (where == "consolidate" or p in ("fifo", "las")) and not isinstance(POLICIES[p](), SharePolicy)
}
# Where jobs insist on their demands, cores may be short where GPUs are not.
BY_GPUS_ALONE = {name: config for name, config in EVERY.items() if not config.mechanism.insists}
# Localities that may let a job wait although it would fit somewhere.
MAY_WAIT = {"relax", "skew"}
SELECTIVE = {name: config for name, config in EVERY.items() if config.locality.name in MAY_WAIT}
Configs = dict[str, SchedulerConfig]


def by_policy(configs: Configs) -> pytest.MarkDecorator:
    """Ask all of one policy about the same clusters: to draw one costs more than to plan it."""
    grouped: dict[str, Configs] = {}
    for name, config in configs.items():
        grouped.setdefault(config.policy.name, {})[name] = config
    return pytest.mark.parametrize("configs", grouped.values(), ids=grouped)


quick = tried(12)


def _granted(snapshot: Snapshot, plan: Plan) -> "np.ndarray[Any, np.dtype[np.bool_]]":
    granted = np.zeros(len(snapshot.jobs), dtype=np.bool_)
    granted[plan.grants.job] = True
    return granted


def _held_by_queue(snapshot: Snapshot, plan: Plan, tree: QueueTree) -> IntArray:
    granted = _granted(snapshot, plan)
    return subtree_sums(tree, snapshot.jobs.queue[granted], snapshot.jobs.num_gpus[granted])


def _used(snapshot: Snapshot, server: IntArray, amounts: FloatArray | IntArray) -> FloatArray:
    return np.bincount(server, weights=amounts, minlength=len(snapshot.servers)).astype(np.float64)


def _capacity_holds_and_gangs_are_whole(config: SchedulerConfig, snapshot: Snapshot, plan: Plan) -> None:
    """No server gives more GPUs, cores or bytes than it has; a granted job gets all its GPUs on few enough servers."""
    grants, servers, jobs = plan.grants, snapshot.servers, snapshot.jobs
    assert (_used(snapshot, grants.server, grants.num_gpus) <= servers.num_gpus).all()
    assert (_used(snapshot, grants.server, grants.cpus) <= servers.num_cpus * (1 + 1e-6)).all()
    assert (_used(snapshot, grants.server, grants.memory_bytes) <= servers.memory_bytes * (1 + 1e-6)).all()
    gpus = np.bincount(grants.job, weights=grants.num_gpus, minlength=len(jobs))
    granted = _granted(snapshot, plan)
    assert (gpus[granted] == jobs.num_gpus[granted]).all()
    seats = np.bincount(grants.job, minlength=len(jobs))
    assert ((seats <= jobs.max_servers) | (jobs.max_servers == 0)).all()


def _everybody_has_one_answer_and_waiting_has_numbers(config: SchedulerConfig, snapshot: Snapshot, plan: Plan) -> None:
    """Every job is granted or waits with one reason and its numbers; places in the line count the waiting jobs."""
    waiting = [entry.job for entry in plan.waiting]
    assert sorted([*waiting, *set(plan.grants.job.tolist())]) == list(range(len(snapshot.jobs)))
    assert all(entry.evidence and entry.reason for entry in plan.waiting)
    assert [entry.position for entry in plan.waiting] == list(range(1, len(waiting) + 1))
    assert waiting == [row for row in plan.order if row in set(waiting)]


def _nobody_is_preempted_without_a_beneficiary(config: SchedulerConfig, snapshot: Snapshot, plan: Plan) -> None:
    """A preempted job makes room for one that newly runs on its servers, or in a queue that could hold no more."""
    tree = queue_tree(snapshot.queues)
    granted = _granted(snapshot, plan)
    servers_of: dict[int, set[int]] = {}
    for job, server in zip(plan.grants.job.tolist(), plan.grants.server.tolist(), strict=True):
        servers_of.setdefault(job, set()).add(server)
    left = {
        row: set(snapshot.held.server[snapshot.held.job == row].tolist())
        for row in (preemption.job for preemption in plan.preemptions)
    }
    capped = {node for node, cap in enumerate(tree.cap) if cap < snapshot.servers.num_gpus.sum()}
    for preemption in plan.preemptions:
        if preemption.rule == PreemptRule.SERVER_GONE:
            assert preemption.by_job == NO_ROW
            continue
        by_job = preemption.by_job
        assert granted[by_job]
        assert by_job not in plan.kept
        common = set(tree.paths[snapshot.jobs.queue[preemption.job]]) & set(tree.paths[snapshot.jobs.queue[by_job]])
        assert servers_of[by_job] & left[preemption.job] or common & capped


def _only_preemptive_policies_stop_jobs_by_order(config: SchedulerConfig, snapshot: Snapshot, plan: Plan) -> None:
    """The order stops nobody under a policy that is not preemptive, and never a job that is not preemptible."""
    by_order = [p.job for p in plan.preemptions if p.rule == PreemptRule.POLICY_ORDER]
    assert config.policy.preemptive or not by_order
    assert snapshot.jobs.preemptible[by_order].all()


def _queues_stay_within_what_they_may_hold(config: SchedulerConfig, snapshot: Snapshot, plan: Plan) -> None:
    """No queue holds more than its maximum, nor more than its quota where it may not borrow, unless it did before."""
    tree = queue_tree(snapshot.queues)
    running = snapshot.jobs.running
    before = subtree_sums(tree, snapshot.jobs.queue[running], snapshot.jobs.num_gpus[running])
    after = _held_by_queue(snapshot, plan, tree)
    assert (after <= np.maximum(snapshot.queues.max_gpus, before)).all()
    strict = ~snapshot.queues.may_borrow
    assert (after <= np.maximum(tree.quota, before))[strict].all()


def _nobody_gets_less_than_the_share(config: SchedulerConfig, snapshot: Snapshot, plan: Plan) -> None:
    """Every granted job has its GPU-proportional cores and memory, or all it can use."""
    jobs, servers, grants = snapshot.jobs, snapshot.servers, plan.grants
    for amounts, capacity, demand in (
        (grants.cpus, servers.num_cpus, jobs.demand_cpus),
        (grants.memory_bytes, servers.memory_bytes, jobs.demand_memory_bytes),
    ):
        share = grants.num_gpus * capacity[grants.server] / servers.num_gpus[grants.server]
        usable = demand[grants.job] * grants.num_gpus / jobs.num_gpus[grants.job]
        assert (amounts >= np.minimum(share, usable) * (1 - 1e-6)).all()


def _free_gpus_are_not_left_to_jobs_that_fit(config: SchedulerConfig, snapshot: Snapshot, plan: Plan) -> None:
    """A job that its queues allow and that fits on what is free after the round does not wait (work conservation)."""
    tree = queue_tree(snapshot.queues)
    held = _held_by_queue(snapshot, plan, tree)
    room = _room_after(snapshot, plan, config.mechanism)
    for entry in plan.waiting:
        gpus = int(snapshot.jobs.num_gpus[entry.job])
        path = tree.paths[snapshot.jobs.queue[entry.job]]
        allowed = all(held[node] + gpus <= tree.cap[node] for node in path)
        assert not (allowed and room(entry.job) >= gpus), entry


def _room_after(snapshot: Snapshot, plan: Plan, mechanism: Mechanism) -> Callable[[int], int]:
    """Return how many GPUs of a job fit on what the plan leaves, GPUs that are being left not counted as free."""
    needs = needs_of(snapshot.jobs, snapshot.servers, trims=mechanism.trims, insists=mechanism.insists)

    def must(row: int, server: int) -> tuple[float, float]:
        share = needs.cpus_share[server : server + 1], needs.memory_share[server : server + 1]
        cpus = must_have(needs.cpus_least[row], needs.cpus_most[row], share[0])
        return float(cpus[0]), float(must_have(needs.memory_least[row], needs.memory_most[row], share[1])[0])

    left = [
        [float(gpus), float(cpus), float(memory)]
        for gpus, cpus, memory in zip(
            snapshot.servers.num_gpus, snapshot.servers.num_cpus, snapshot.servers.memory_bytes, strict=True
        )
    ]
    taken: Placements = plan.grants
    for row, server, gpus in zip(taken.job.tolist(), taken.server.tolist(), taken.num_gpus.tolist(), strict=True):
        cpus, memory = must(row, server)
        left[server] = [left[server][0] - gpus, left[server][1] - gpus * cpus, left[server][2] - gpus * memory]

    def room(row: int) -> int:
        counts = []
        for server, (gpus, cpus, memory) in enumerate(left):
            need_cpus, need_memory = must(row, server)
            fits = min(gpus, cpus / need_cpus if need_cpus else gpus, memory / need_memory if need_memory else gpus)
            counts.append(int(max(0.0, fits) * (1 - 1e-9)))
        counts.sort(reverse=True)
        most = int(snapshot.jobs.max_servers[row])
        return sum(counts[:most] if most else counts)

    return room


PROMISES = (
    _capacity_holds_and_gangs_are_whole,
    _everybody_has_one_answer_and_waiting_has_numbers,
    _nobody_is_preempted_without_a_beneficiary,
    _only_preemptive_policies_stop_jobs_by_order,
    _queues_stay_within_what_they_may_hold,
    _nobody_gets_less_than_the_share,
)


@by_policy(EVERY)
@quick
@given(snapshot=snapshots(), seed=st.integers(0, 1_000))
def test_a_round_keeps_its_promises(configs: Configs, snapshot: Snapshot, seed: int) -> None:
    """What holds of every single plan is asked of one and the same: drawing and planning cost most of the time.

    The same jobs and servers in other rows give the same plan, named by ids; and so does planning again.
    """
    other = shuffled(snapshot, np.random.default_rng(seed))
    for name, config in configs.items():
        note(name)
        plan = plan_round(snapshot, config)

        for promise in PROMISES:
            promise(config, snapshot, plan)
        if config.locality.name not in MAY_WAIT:
            _free_gpus_are_not_left_to_jobs_that_fit(config, snapshot, plan)
        assert plan_round(snapshot, config).plan_hash == plan.plan_hash
        assert plan_round(other, config).plan_hash == plan.plan_hash


@by_policy(SELECTIVE)
@quick
@given(snapshot=snapshots())
def test_on_one_server_nobody_waits_for_a_better_place(configs: Configs, snapshot: Snapshot) -> None:
    """Work conservation under localities that let a gang wait for servers nearer to each other."""
    one_server = np.where(snapshot.jobs.running, snapshot.jobs.max_servers, 1)
    snapshot = replace(snapshot, jobs=replace(snapshot.jobs, max_servers=one_server))

    for name, config in configs.items():
        note(name)
        _free_gpus_are_not_left_to_jobs_that_fit(config, snapshot, plan_round(snapshot, config))


@by_policy(BY_GPUS_ALONE)
@quick
@given(snapshot=snapshots(tight=False))
def test_a_queue_below_its_quota_is_not_kept_out_by_a_borrower(configs: Configs, snapshot: Snapshot) -> None:
    """After at most two rounds no job within its queue's quota waits for GPUs that one borrower could leave."""
    for name, config in configs.items():
        note(name)
        _nobody_is_kept_out_by_a_borrower(config, snapshot)


def _nobody_is_kept_out_by_a_borrower(config: SchedulerConfig, snapshot: Snapshot) -> None:
    for _ in range(2):
        snapshot = carried_out(snapshot, plan_round(snapshot, config))
    plan = plan_round(snapshot, config)

    tree = queue_tree(snapshot.queues)
    held = _held_by_queue(snapshot, plan, tree)
    for entry in plan.waiting:
        helpful = [
            row for row in set(plan.grants.job.tolist()) if _would_help(snapshot, plan, tree, held, entry.job, row)
        ]
        assert not helpful, (entry, helpful)


def _would_help(snapshot: Snapshot, plan: Plan, tree: QueueTree, held: IntArray, waiting: int, runs: int) -> bool:
    """Return whether ``runs`` borrows what ``waiting`` has a right to, and leaves it enough room on one server."""
    jobs = snapshot.jobs
    gpus, path = int(jobs.num_gpus[waiting]), tree.paths[jobs.queue[waiting]]
    if held[path[0]] + gpus > tree.quota[path[0]] or any(held[node] + gpus > tree.cap[node] for node in path):
        return False
    other = tree.paths[jobs.queue[runs]]
    earlier = [row for row in plan.order[: plan.order.index(runs)] if row in set(plan.grants.job.tolist())]
    before = subtree_sums(tree, jobs.queue[earlier], jobs.num_gpus[earlier])
    if any(before[node] + jobs.num_gpus[runs] <= tree.quota[node] for node in other):
        return False  # others of its queue borrow, not this job
    if any(held[node] - jobs.num_gpus[runs] < tree.quota[node] for node in other):
        return False
    if any(held[node] + gpus > tree.quota[node] and node not in other for node in path):
        return False  # it may take only from inside that queue
    free = snapshot.servers.num_gpus - _used(snapshot, plan.grants.server, plan.grants.num_gpus)
    mine = plan.grants.job == runs
    return bool((free + _used(snapshot, plan.grants.server[mine], plan.grants.num_gpus[mine])).max() >= gpus)


@by_policy(EVERY)
@quick
@given(snapshot=snapshots())
def test_a_plan_that_was_carried_out_is_kept(configs: Configs, snapshot: Snapshot) -> None:
    """When nothing but the plan happened, the next round moves only jobs that were displaced, and then settles."""
    for name, config in configs.items():
        note(name)
        moved = snapshot
        for _ in range(3):
            moved = carried_out(moved, plan_round(moved, config), after_s=0.0)

        assert not plan_round(moved, config).preemptions
