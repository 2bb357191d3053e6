"""What every policy holds with every locality and every mechanism, rigid and elastic jobs mixed.

The combination is part of what is drawn, so that a run of any length spreads over all of them; one test visits each.
``EXAMPLES=full`` tries six times as many examples.
"""

from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from scheduler.core.model.cpu_memory_bounds import must_have, needs_of
from scheduler.core.model.plan import Plan, PreemptRule
from scheduler.core.model.profile import Profile
from scheduler.core.model.queue_tree import queue_tree, subtree_sums
from scheduler.core.model.tables import NO_ROW, FloatArray, IntArray, Placements, Snapshot
from scheduler.core.operations.reasons import sentence
from scheduler.core.round.config import SchedulerConfig, SharePolicy
from scheduler.core.round.plan_round import plan_round
from scheduler.introspection import INTROSPECTIONS
from scheduler.mechanisms import MECHANISMS
from scheduler.placement import LOCALITIES
from scheduler.policies import POLICIES
from tests.support.oracle.cases import random_case
from tests.support.simulator.strategies import NO_LIMIT, carried_out, shuffled, snapshots
from tests.support.suite.examples import tried

NAMES = [*product(POLICIES, LOCALITIES, MECHANISMS)]
# Localities under which a gang may wait for servers nearer to each other.
SELECTIVE = {"relax", "skew"}
RESOURCES = (("num_gpus", "num_gpus"), ("cpus", "num_cpus"), ("memory_bytes", "memory_bytes"))
hunt = tried(75)
names = st.sampled_from(NAMES)
EXAMPLES = [random_case(Random(seed), wide=True, protected=True).snapshot() for seed in range(20)]


def _config(chosen: tuple[str, str, str]) -> SchedulerConfig:
    policy, locality, mechanism = chosen
    return SchedulerConfig(
        policy=POLICIES[policy](), locality=LOCALITIES[locality](), mechanism=MECHANISMS[mechanism]()
    )


def _profile(curve: tuple[float, ...], skew: float | None) -> Profile:
    points = zip((1.0, 2.0, 4.0, 8.0), curve, strict=True)
    return Profile(scaling=tuple(points), skew=skew)


PROFILES = (
    _profile((1.0, 1.9, 3.5, 6.0), 0.6),
    _profile((1.0, 1.4, 1.7, 1.6), 0.05),
    _profile((1.0, 2.0, 4.0, 8.0), None),
)


def _dressed(snapshot: Snapshot, seed: int, *, elastic: bool) -> Snapshot:
    """Return the snapshot with users, weights, racks, profiles, avoided servers and other GPU counts by chance."""
    rng, jobs = np.random.default_rng(seed), snapshot.jobs
    size = len(jobs)
    stretch = elastic & (rng.random(size) < 0.6)
    least = np.where(stretch & (rng.random(size) < 0.7), 1, jobs.num_gpus)
    most = np.where(stretch, np.maximum(jobs.num_gpus, rng.integers(1, 9, size)), jobs.num_gpus)
    columns: dict[str, Any] = {  # Any: the type checker cannot follow arrays into arguments by name
        "owner": rng.integers(0, 4, size),
        "weight": rng.choice([1.0, 1.0, 2.0], size),
        "priority": rng.choice([20.0, 50.0, 50.0, 80.0], size),
        "sharers": rng.choice([1.0, 3.0, 4.5], size),
        "total_s": jobs.remaining_s + jobs.executed_s,
        "min_gpus": least.astype(np.int64),
        "max_gpus": most.astype(np.int64),
        "profile": rng.integers(NO_ROW, len(PROFILES), size),
        "profiles": PROFILES,
    }
    rack = rng.integers(0, 2, len(snapshot.servers))
    pairs = product(jobs.job_id.tolist(), snapshot.servers.server_id.tolist())
    avoids = tuple(pair for pair in pairs if rng.random() < 0.15)
    return replace(snapshot, jobs=replace(jobs, **columns), servers=replace(snapshot.servers, rack=rack), avoids=avoids)


@st.composite
def clusters(draw: st.DrawFn, *, tight: bool = True, elastic: bool = True) -> Snapshot:
    """A small cluster as in ``snapshots``, with all that any policy or locality looks at."""
    return _dressed(draw(snapshots(tight=tight)), draw(st.integers(0, 1_000)), elastic=elastic)


def _used(snapshot: Snapshot, server: IntArray, amounts: FloatArray | IntArray) -> FloatArray:
    return np.bincount(server, weights=amounts, minlength=len(snapshot.servers)).astype(np.float64)


def _gpus(snapshot: Snapshot, plan: Plan) -> IntArray:
    """Return (n,) GPUs of each job after the plan."""
    grants = plan.grants
    return np.bincount(grants.job, weights=grants.num_gpus, minlength=len(snapshot.jobs)).astype(np.int64)


def _is_safe(snapshot: Snapshot, plan: Plan) -> None:
    """Capacity holds, gangs are whole, nobody is on too many servers or without an answer."""
    jobs, servers, grants = snapshot.jobs, snapshot.servers, plan.grants
    own = ~np.isin(grants.job, list(plan.riding))  # a guest sits on the GPUs of its host
    for given_name, capacity_name in RESOURCES:
        given = _used(snapshot, grants.server[own], getattr(grants, given_name)[own])
        assert (given <= getattr(servers, capacity_name) * (1 + 1e-6)).all(), given_name
    gpus = _gpus(snapshot, plan)
    runs = gpus > 0
    rigid = jobs.min_gpus == jobs.max_gpus
    assert (gpus[runs & rigid] == jobs.num_gpus[runs & rigid]).all()
    assert ((gpus >= jobs.min_gpus) & (gpus <= jobs.max_gpus))[runs].all()
    on_servers = np.bincount(grants.job, minlength=len(jobs))
    assert ((on_servers <= jobs.max_servers) | (jobs.max_servers == 0)).all()
    assert len(set(zip(grants.job.tolist(), grants.server.tolist(), strict=True))) == len(grants)
    waiting = [entry.job for entry in plan.waiting]
    assert sorted([*waiting, *np.flatnonzero(runs).tolist()]) == list(range(len(jobs)))
    assert all(entry.evidence and sentence(entry.reason, entry.evidence) for entry in plan.waiting)
    stopped = {preemption.job for preemption in plan.preemptions}
    assert set(np.flatnonzero(jobs.running).tolist()) == set(plan.kept) | set(plan.resized) | stopped
    assert len(set(plan.riding.values())) == len(plan.riding)
    for guest, host in plan.riding.items():
        assert host not in plan.riding
        mine, its = grants.job == guest, grants.job == host
        for column in (grants.server, grants.num_gpus):
            assert column[mine].tolist() == column[its].tolist()


def test_each_combination_plans() -> None:
    """Every combination there is decides a cluster of its own and is safe."""
    find = np.random.default_rng(7)
    for number, chosen in enumerate(NAMES):
        snapshot = _dressed(EXAMPLES[number % len(EXAMPLES)], int(find.integers(0, 1_000)), elastic=bool(number % 2))
        _is_safe(snapshot, plan_round(snapshot, _config(chosen)))


def test_each_combination_keeps_off_barred_servers() -> None:
    """``plan_round`` itself checks that no job comes to one; running jobs may stay."""
    find = np.random.default_rng(11)
    for number, chosen in enumerate(NAMES):
        snapshot = _dressed(EXAMPLES[number % len(EXAMPLES)], int(find.integers(0, 1_000)), elastic=bool(number % 2))
        pairs = product(snapshot.queues.queue_id.tolist(), snapshot.servers.server_id.tolist())
        snapshot = replace(snapshot, barred=tuple(pair for pair in pairs if find.random() < 0.4))
        _is_safe(snapshot, plan_round(snapshot, _config(chosen)))


@pytest.mark.long
@pytest.mark.parametrize("policy", POLICIES)
@tried(20)
@given(snapshot=clusters())
def test_no_combination_is_left_out(policy: str, snapshot: Snapshot) -> None:
    """On every drawn cluster a policy is safe with every locality and every mechanism, not only with those drawn."""
    for where, mechanism in product(LOCALITIES, MECHANISMS):
        _is_safe(snapshot, plan_round(snapshot, _config((policy, where, mechanism))))


@hunt
@given(chosen=names, snapshot=clusters(), tried=st.sets(st.sampled_from([*INTROSPECTIONS])))
def test_every_plan_is_safe(chosen: tuple[str, str, str], snapshot: Snapshot, tried: set[str]) -> None:
    """Capacity, gangs and answers, round after round, whatever is tried on running jobs."""
    parts = tuple(kind() for name, kind in INTROSPECTIONS.items() if name in tried)
    config = replace(_config(chosen), introspection=parts)
    for _ in range(2):
        plan = plan_round(snapshot, config)
        _is_safe(snapshot, plan)
        snapshot = _next(snapshot, plan)
    _is_safe(snapshot, plan_round(snapshot, config))


def _next(snapshot: Snapshot, plan: Plan, *, after_s: float = 60.0) -> Snapshot:
    """Return the snapshot after the plan was carried out; elastic jobs are as wide as they run."""
    later, gpus = carried_out(snapshot, plan, after_s=after_s), _gpus(snapshot, plan)
    elastic = (gpus > 0) & (snapshot.jobs.min_gpus < snapshot.jobs.max_gpus)
    num_gpus = np.where(elastic, gpus, later.jobs.num_gpus)
    return replace(later, trials=plan.trials, jobs=replace(later.jobs, num_gpus=num_gpus))


@hunt
@given(chosen=names, snapshot=clusters(), seed=st.integers(0, 1_000))
def test_rows_do_not_matter(chosen: tuple[str, str, str], snapshot: Snapshot, seed: int) -> None:
    """The same jobs and servers in other rows give the same plan, named by ids; and so does planning again."""
    config = _config(chosen)
    expected = plan_round(snapshot, config).plan_hash

    assert plan_round(snapshot, config).plan_hash == expected
    assert plan_round(shuffled(snapshot, np.random.default_rng(seed)), config).plan_hash == expected


@hunt
@given(chosen=names, snapshot=clusters())
def test_the_protected_are_not_stopped_by_the_order(chosen: tuple[str, str, str], snapshot: Snapshot) -> None:
    """Only an owner that takes its quota back, or a lost server, stops a job that is not preemptible."""
    config = _config(chosen)
    plan = plan_round(snapshot, config)

    for preemption in plan.preemptions:
        if preemption.rule in (PreemptRule.POLICY_ORDER, PreemptRule.NO_SHARE):
            assert config.policy.preemptive or isinstance(config.policy, SharePolicy)
            assert snapshot.jobs.preemptible[preemption.job], preemption
        assert preemption.evidence


@hunt
@given(chosen=names, snapshot=clusters(elastic=False))
def test_free_gpus_are_not_left_to_jobs_that_fit(chosen: tuple[str, str, str], snapshot: Snapshot) -> None:
    """A job that its queues allow and that fits on what is free after the round does not wait (work conservation)."""
    if chosen[1] in SELECTIVE:  # on one server nobody waits for a better place
        jobs = snapshot.jobs
        snapshot = replace(snapshot, jobs=replace(jobs, max_servers=np.where(jobs.running, jobs.max_servers, 1)))
    config = _config(chosen)
    plan = plan_round(snapshot, config)

    tree, gpus = queue_tree(snapshot.queues), _gpus(snapshot, plan)
    held = subtree_sums(tree, snapshot.jobs.queue, gpus)
    room = _Room(snapshot, config, plan)
    for entry in plan.waiting:
        needed = int(snapshot.jobs.num_gpus[entry.job])
        allowed = all(held[node] + needed <= tree.cap[node] for node in tree.paths[snapshot.jobs.queue[entry.job]])
        assert not (allowed and room.most_gpus(entry.job) >= needed), entry


class _Room:
    """What a plan leaves on the servers when every job has only what it must have."""

    def __init__(self, snapshot: Snapshot, config: SchedulerConfig, plan: Plan) -> None:
        self._snapshot, mechanism = snapshot, config.mechanism
        self._needs = needs_of(snapshot.jobs, snapshot.servers, trims=mechanism.trims, insists=mechanism.insists)
        servers, grants = snapshot.servers, plan.grants
        self._left = np.stack((servers.num_gpus.astype(np.float64), servers.num_cpus, servers.memory_bytes))
        for row, server, gpus in zip(
            grants.job.tolist(), grants.server.tolist(), grants.num_gpus.tolist(), strict=True
        ):
            self._left[:, server] -= gpus * self._must(row)[:, server]

    def _must(self, row: int) -> FloatArray:
        """Return (3, m) GPUs, cores and bytes per GPU of the job on each server."""
        needs = self._needs
        cpus = must_have(needs.cpus_least[row], needs.cpus_most[row], needs.cpus_share)
        memory = must_have(needs.memory_least[row], needs.memory_most[row], needs.memory_share)
        return np.stack((np.ones_like(cpus), cpus, memory))

    def most_gpus(self, row: int) -> int:
        """Return how many GPUs the job could have on as many servers as it may use."""
        must = self._must(row)
        fits = np.where(must > 0, np.maximum(self._left, 0.0) / np.maximum(must, 1e-300), np.inf).min(axis=0)
        counts = np.sort(np.floor(fits * (1 - 1e-9)))[::-1]
        most = int(self._snapshot.jobs.max_servers[row])
        return int((counts[:most] if most else counts).sum())


@hunt
@given(chosen=names, snapshot=clusters())
def test_queues_stay_within_what_they_may_hold(chosen: tuple[str, str, str], snapshot: Snapshot) -> None:
    """No queue gets more than its maximum, nor more than its quota where it may not borrow, unless it held more."""
    plan = plan_round(snapshot, _config(chosen))

    tree = queue_tree(snapshot.queues)
    held = np.bincount(snapshot.held.job, weights=snapshot.held.num_gpus, minlength=len(snapshot.jobs))
    before = subtree_sums(tree, snapshot.jobs.queue, held.astype(np.int64))
    after = subtree_sums(tree, snapshot.jobs.queue, _gpus(snapshot, plan))
    assert (after <= np.maximum(np.array(tree.cap), before)).all()


@hunt
@given(chosen=names, snapshot=clusters(tight=False))
def test_a_queue_below_its_quota_is_not_kept_out(chosen: tuple[str, str, str], snapshot: Snapshot) -> None:
    """A queue with quota for one of its jobs, beside queues that only borrow, has a job running two rounds later."""
    jobs = snapshot.jobs
    waits = ~jobs.running & (jobs.num_gpus <= snapshot.servers.num_gpus.max())
    assume(waits.any())
    row = int(np.flatnonzero(waits)[0])
    snapshot = _with_quota(snapshot, queue=int(jobs.queue[row]), gpus=int(jobs.num_gpus[row]))
    config = _config(chosen)
    for _ in range(2):
        snapshot = _next(snapshot, plan_round(snapshot, config))
    plan = plan_round(snapshot, config)

    mine = jobs.queue == jobs.queue[row]
    assert (_gpus(snapshot, plan)[mine] > 0).any(), [entry for entry in plan.waiting if mine[entry.job]]


def _with_quota(snapshot: Snapshot, *, queue: int, gpus: int) -> Snapshot:
    """Return the snapshot with flat queues, of which one has quota; nothing known of cores and memory."""
    size, unknown = len(snapshot.queues), np.full(len(snapshot.jobs), np.inf)
    queues = replace(
        snapshot.queues,
        parent=np.full(size, NO_ROW),
        quota_gpus=np.where(np.arange(size) == queue, gpus, 0),
        may_borrow=np.ones(size, dtype=np.bool_),
        max_gpus=np.full(size, NO_LIMIT),
    )
    jobs = replace(snapshot.jobs, demand_cpus=unknown, demand_memory_bytes=unknown)
    return replace(snapshot, queues=queues, jobs=jobs, releasing=Placements.none())


@hunt
@given(chosen=names, snapshot=clusters(tight=False, elastic=False))
def test_nobody_is_worse_off_than_with_its_share(chosen: tuple[str, str, str], snapshot: Snapshot) -> None:
    """Every job that runs has its GPU-proportional cores and memory, or all it can use; greedy promises nothing."""
    assume(chosen[2] != "greedy")
    plan = plan_round(snapshot, _config(chosen))

    jobs, servers, grants = snapshot.jobs, snapshot.servers, plan.grants
    for given_name, capacity_name in RESOURCES[1:]:
        given, capacity = getattr(grants, given_name), getattr(servers, capacity_name)
        share = grants.num_gpus * capacity[grants.server] / servers.num_gpus[grants.server]
        demand = jobs.demand_cpus if given_name == "cpus" else jobs.demand_memory_bytes
        usable = demand[grants.job] * grants.num_gpus / jobs.num_gpus[grants.job]
        assert (given >= np.minimum(share, usable) * (1 - 1e-6)).all(), given_name


@hunt
@given(chosen=names, snapshot=clusters())
def test_a_plan_that_was_carried_out_is_kept(chosen: tuple[str, str, str], snapshot: Snapshot) -> None:
    """When nothing but the plan happened and no time has passed, the rounds come to rest: nobody is stopped."""
    config = _config(chosen)
    for _ in range(3):
        snapshot = _next(snapshot, plan_round(snapshot, config), after_s=0.0)
    plan = plan_round(snapshot, config)

    assert not plan.preemptions
    assert not plan.resized or isinstance(config.policy, SharePolicy)
