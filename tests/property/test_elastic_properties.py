"""What every plan holds when a policy chooses how many GPUs each job gets."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.core.model.plan import PreemptRule
from scheduler.core.model.tables import NO_ROW, IntArray, Placements, Snapshot, only_jobs
from scheduler.core.round.config import SchedulerConfig, SharePolicy
from scheduler.core.round.introspection_loop import without_seats
from scheduler.core.round.plan_round import plan_round
from scheduler.mechanisms import MECHANISMS
from scheduler.placement import LOCALITIES
from scheduler.policies import POLICIES
from tests.support.simulator.strategies import (
    NO_LIMIT,
    NOW_S,
    JobRow,
    QueueRow,
    ServerRow,
    carried_out,
    snapshot_of,
    snapshots,
)
from tests.support.suite.examples import tried

SHARING = [name for name, policy in POLICIES.items() if isinstance(policy(), SharePolicy)]
EVERY = {
    f"{policy}-{mechanism}": SchedulerConfig(
        policy=POLICIES[policy](), locality=LOCALITIES["consolidate"](), mechanism=MECHANISMS[mechanism]()
    )
    for policy in SHARING
    for mechanism in ("proportional", "tune")
}
every_config = pytest.mark.parametrize("config", EVERY.values(), ids=EVERY)
quick = tried(12)


@st.composite
def elastic_snapshots(draw: st.DrawFn, *, tight: bool = True) -> Snapshot:
    """A small cluster where some jobs are elastic; a running one holds anything between its bounds."""
    snapshot = draw(snapshots(tight=tight))
    jobs = snapshot.jobs
    size = len(jobs)
    elastic = np.array(draw(st.lists(st.booleans(), min_size=size, max_size=size)), dtype=np.bool_)
    more = np.array(draw(st.lists(st.integers(1, 8), min_size=size, max_size=size)), dtype=np.int64)
    return replace(
        snapshot,
        jobs=replace(
            jobs,
            min_gpus=np.where(elastic, np.minimum(jobs.num_gpus, 1 + more % 2), jobs.num_gpus),
            max_gpus=np.where(elastic, jobs.num_gpus + more, jobs.num_gpus),
            total_s=np.where(np.isfinite(jobs.remaining_s), jobs.remaining_s + jobs.executed_s, np.inf),
        ),
    )


@st.composite
def crowded(draw: st.DrawFn) -> Snapshot:
    """Queues below queues that may hold little, full of running jobs of which half may not be stopped."""
    sizes = draw(st.lists(st.sampled_from([2, 4, 8]), min_size=1, max_size=3))
    queues: list[QueueRow] = []
    for row in range(draw(st.integers(1, 5))):
        quota = draw(st.integers(0, 6))
        limit = draw(st.sampled_from([NO_LIMIT, quota + 2, max(quota, sum(sizes) // 2)]))
        borrows = draw(st.sampled_from([True, True, False]))
        queues.append(
            QueueRow(parent=draw(st.integers(NO_ROW, row - 1)), quota_gpus=quota, may_borrow=borrows, max_gpus=limit)
        )
    free = list(sizes)
    jobs = [draw(_kept_or_waiting(len(queues), free)) for _ in range(draw(st.integers(1, 9)))]
    return snapshot_of(jobs, [ServerRow(num_gpus=size, num_cpus=3.0 * size) for size in sizes], queues)


@st.composite
def _kept_or_waiting(draw: st.DrawFn, num_queues: int, free: list[int]) -> JobRow:
    gpus = draw(st.sampled_from([1, 1, 2, 3, 4]))
    seats: list[tuple[int, int]] = []
    if sum(free) >= gpus and draw(st.sampled_from([True, True, False])):
        for server, left in enumerate(free):
            count = min(left, gpus - sum(held for _, held in seats))
            free[server] -= count
            seats += [(server, count)] if count else []
    return JobRow(
        queue=draw(st.integers(0, num_queues - 1)),
        num_gpus=gpus,
        min_gpus=draw(st.sampled_from([1, gpus])),
        max_gpus=gpus * draw(st.sampled_from([1, 2, 4])),
        max_servers=0,
        preemptible=draw(st.booleans()),
        waited_s=0.0 if seats else draw(st.sampled_from([10.0, 1_000.0])),
        first_start_s=0.0 if seats else float("inf"),
        remaining_s=draw(st.sampled_from([60.0, 600.0, float("inf")])),
        unsaved_s=draw(st.sampled_from([0.0, 30.0])) if seats else 0.0,
        held_at_s=NOW_S - draw(st.sampled_from([10.0, 1_000.0])),
        seats=tuple(seats),
    )


@pytest.mark.parametrize("policy", SHARING)
@quick
@given(
    snapshot=crowded(),
    locality=st.sampled_from(sorted(LOCALITIES)),
    preempt=st.booleans(),
    min_run_s=st.sampled_from([0.0, 100.0]),
    reclaim_after_s=st.sampled_from([0.0, 100.0]),
)
def test_limits_of_queues_hold_beside_jobs_that_keep_their_gpus(
    policy: str, snapshot: Snapshot, *, locality: str, preempt: bool, min_run_s: float, reclaim_after_s: float
) -> None:
    """Four rounds one after another: ``plan_round`` finds no broken rule, and says the same twice."""
    config = SchedulerConfig(
        policy=POLICIES[policy](),
        locality=LOCALITIES[locality](),
        mechanism=MECHANISMS["proportional"](),
        preempt=preempt,
        min_run_s=min_run_s,
        reclaim_after_s=reclaim_after_s,
    )
    for _ in range(4):
        plan = plan_round(snapshot, config)

        assert plan.plan_hash == plan_round(snapshot, config).plan_hash
        snapshot = carried_out(snapshot, plan)


def _gpus(snapshot: Snapshot, placements: Placements) -> IntArray:
    weights = placements.num_gpus
    return np.bincount(placements.job, weights=weights, minlength=len(snapshot.jobs)).astype(np.int64)


@every_config
@quick
@given(snapshot=elastic_snapshots())
def test_everybody_gets_nothing_or_a_number_within_its_bounds(config: SchedulerConfig, snapshot: Snapshot) -> None:
    """Rigid jobs get all or nothing, elastic ones a number between their bounds, and no server gives what it lacks."""
    plan = plan_round(snapshot, config)

    gpus, jobs = _gpus(snapshot, plan.grants), snapshot.jobs
    used = np.bincount(plan.grants.server, weights=plan.grants.num_gpus, minlength=len(snapshot.servers))
    assert (used <= snapshot.servers.num_gpus).all()
    assert ((gpus == 0) | ((gpus >= jobs.min_gpus) & (gpus <= jobs.max_gpus))).all()
    assert sorted([*np.flatnonzero(gpus), *(waiting.job for waiting in plan.waiting)]) == list(range(len(jobs)))


@every_config
@quick
@given(snapshot=elastic_snapshots())
def test_a_running_job_is_kept_resized_or_stopped(config: SchedulerConfig, snapshot: Snapshot) -> None:
    """A resized job shrinks inside its own servers; a job without a share is stopped by a rule of its own."""
    plan = plan_round(snapshot, config)

    before, after = _gpus(snapshot, snapshot.held), _gpus(snapshot, plan.grants)
    stopped = {preemption.job: preemption.rule for preemption in plan.preemptions}
    assert plan.kept | plan.resized | set(stopped) == set(np.flatnonzero(snapshot.jobs.running).tolist())
    for row in plan.resized:
        held = {(s, g) for j, s, g in zip(*_seats(snapshot.held), strict=True) if j == row}
        seats = {s: g for j, s, g in zip(*_seats(plan.grants), strict=True) if j == row}
        assert before[row] != after[row] > 0
        if after[row] < before[row]:
            assert all(gpus <= dict(held)[server] for server, gpus in seats.items())
    withdrawn = [row for row, rule in stopped.items() if rule == PreemptRule.NO_SHARE and not after[row]]
    assert {waiting.job for waiting in plan.waiting} >= set(withdrawn)


def _seats(placements: Placements) -> tuple[list[int], list[int], list[int]]:
    return placements.job.tolist(), placements.server.tolist(), placements.num_gpus.tolist()


@every_config
@quick
@given(snapshot=elastic_snapshots())
def test_the_same_snapshot_gives_the_same_plan(config: SchedulerConfig, snapshot: Snapshot) -> None:
    """Two rounds over one snapshot have one hash."""
    assert plan_round(snapshot, config).plan_hash == plan_round(snapshot, config).plan_hash


@pytest.mark.parametrize("policy", ["maxmin", "optimus", "afs-l"])
@quick
@given(snapshot=elastic_snapshots(tight=False))
def test_a_second_round_over_its_own_outcome_stops_nobody(policy: str, snapshot: Snapshot) -> None:
    """What a round gave, the next one does not take away when nothing happened in between."""
    config = SchedulerConfig(
        policy=POLICIES[policy](), locality=LOCALITIES["consolidate"](), mechanism=MECHANISMS["proportional"]()
    )
    jobs = replace(snapshot.jobs, max_servers=np.zeros_like(snapshot.jobs.max_servers))
    free = replace(snapshot, jobs=jobs, releasing=Placements.none())
    first = plan_round(free, config)

    # Remaining and attained times are left as they are: only who holds what changes.
    again = carried_out(free, first, after_s=0.0)
    second = plan_round(again, config)
    by_share = [p for p in second.preemptions if p.rule == PreemptRule.NO_SHARE]
    if policy != "maxmin":  # there the tie-break of every policy, first start, has changed
        assert not by_share


@st.composite
def scattered(draw: st.DrawFn) -> Snapshot:
    """Rigid jobs here and there on servers of four GPUs, and more of them than fit, the first a gang of four."""
    size = draw(st.integers(2, 3))
    free = [4] * size
    jobs = [JobRow(num_gpus=4, remaining_s=50.0, total_s=50.0, waited_s=10.0)]
    for number in range(draw(st.integers(4, 10))):
        gpus, left_s = draw(st.sampled_from([1, 1, 2, 3])), 60.0 * draw(st.integers(1, 20))
        roomy = [server for server, count in enumerate(free) if count >= gpus]
        sits = draw(st.booleans())
        seats = ((draw(st.sampled_from(roomy)), gpus),) if roomy and sits else ()
        for server, count in seats:
            free[server] -= count
        jobs.append(
            JobRow(
                num_gpus=gpus,
                arrival_s=10.0 * number,
                first_start_s=100.0 * number if seats else float("inf"),
                executed_s=500.0 if seats else 0.0,
                waited_s=0.0 if seats else 10.0,
                remaining_s=left_s,
                total_s=left_s + (500.0 if seats else 0.0),
                held_at_s=NOW_S - 500.0,
                seats=seats,
            )
        )
    return snapshot_of(jobs, [ServerRow(num_gpus=4)] * size)


@pytest.mark.parametrize("policy", SHARING)
@quick
@given(snapshot=scattered(), gone=st.sets(st.integers(1, 10)))
def test_who_borrows_is_in_nobodys_way(policy: str, snapshot: Snapshot, gone: set[int]) -> None:
    """With borrowers on their seats, when some jobs have ended, all others get as much as if these had never run."""
    config = EVERY[f"{policy}-proportional"]
    first = plan_round(snapshot, config)
    left = np.array([row for row in range(len(snapshot.jobs)) if row not in gone])
    after = only_jobs(carried_out(snapshot, first, after_s=0.0), left)
    borrowers = after.jobs.lent
    jobs = replace(after.jobs, lent=np.zeros_like(borrowers))
    jobs = replace(jobs, first_start_s=np.where(borrowers, np.inf, jobs.first_start_s))
    without = without_seats(replace(after, jobs=jobs), np.flatnonzero(borrowers))

    beside, alone = plan_round(after, config), plan_round(without, config)
    others = ~borrowers & ~np.isin(np.arange(len(left)), [*beside.lent, *alone.lent])
    assert _gpus(after, beside.grants)[others].tolist() == _gpus(without, alone.grants)[others].tolist()


@quick
@given(snapshot=elastic_snapshots(), gpus=st.integers(0, 40), name=st.sampled_from(SHARING))
def test_shares_are_within_their_bounds(name: str, gpus: int, snapshot: Snapshot) -> None:
    """Every policy gives 0 or a number between the bounds, and no more GPUs than there are."""
    policy = POLICIES[name]()
    assert isinstance(policy, SharePolicy)

    shares, jobs = policy.shares(snapshot, gpus), snapshot.jobs
    assert ((shares == 0) | ((shares >= jobs.min_gpus) & (shares <= jobs.max_gpus))).all()
    assert shares.sum() <= gpus
