"""GPUs of shares that find no place are lent to jobs without a share, and come back when a share needs them."""

from dataclasses import replace

import numpy as np
import pytest

from scheduler.core.model.plan import Plan, PreemptRule, WaitReason
from scheduler.core.model.tables import Snapshot, only_jobs
from scheduler.core.round.config import SchedulerConfig, SharePolicy
from scheduler.core.round.plan_round import plan_round
from scheduler.mechanisms.proportional import Proportional
from scheduler.placement.consolidate import Consolidate
from scheduler.policies import POLICIES
from tests.support.simulator.strategies import JobRow, QueueRow, ServerRow, carried_out, snapshot_of

SHARING = [name for name, policy in POLICIES.items() if isinstance(policy(), SharePolicy)]
every_policy = pytest.mark.parametrize("name", SHARING)
TWO_SERVERS = [ServerRow(num_gpus=4), ServerRow(num_gpus=4)]


def _config(name: str) -> SchedulerConfig:
    return SchedulerConfig(policy=POLICIES[name](), locality=Consolidate(), mechanism=Proportional())


def _job(gpus: int, *seats: tuple[int, int], arrival_s: float = 0.0, left_s: float = 900.0) -> JobRow:
    """Return a rigid job on one server; where it runs it may not be stopped."""
    return JobRow(
        num_gpus=gpus,
        arrival_s=arrival_s,
        remaining_s=left_s,
        total_s=left_s + (1_000.0 if seats else 0.0),
        executed_s=1_000.0 if seats else 0.0,
        first_start_s=0.0 if seats else float("inf"),
        preemptible=not seats,
        seats=seats,
    )


def _scattered(*others: JobRow) -> Snapshot:
    """Return two servers of 4 GPUs, half of each taken, and a job that needs four on one: row 2, before the others."""
    return snapshot_of([_job(2, (0, 2)), _job(2, (1, 2)), _job(4, arrival_s=10.0, left_s=100.0), *others], TWO_SERVERS)


def _places(plan: Plan, row: int) -> list[tuple[int, int]]:
    grants, mine = plan.grants, plan.grants.job == row
    return list(zip(grants.server[mine].tolist(), grants.num_gpus[mine].tolist(), strict=True))


@every_policy
def test_gpus_of_a_share_without_a_place_are_lent(name: str) -> None:
    """The four GPUs that are free on no one server serve two narrow jobs; the wide one says what it waits for."""
    snapshot = _scattered(*(_job(1, arrival_s=20.0 + late) for late in range(2)))
    plan = plan_round(snapshot, _config(name))

    assert plan.lent == {3, 4}
    assert [(waits.job, waits.reason) for waits in plan.waiting] == [(2, WaitReason.FRAGMENTATION)]


@every_policy
def test_gpus_that_are_being_left_are_lent_after_free_ones(name: str) -> None:
    """Of the four GPUs without a use one is on its way to be free: the last one who borrows waits for that."""
    rows = [_job(2, (0, 2)), _job(2, (1, 2)), _job(4, arrival_s=10.0, left_s=100.0)]
    rows += [_job(1, arrival_s=20.0 + late) for late in range(4)]
    plan = plan_round(snapshot_of(rows, TWO_SERVERS, releasing=[(0, 1)]), _config(name))

    assert plan.lent == {3, 4, 5, 6}
    assert sorted(at for row in (3, 4, 5) for at in _places(plan, row)) == [(0, 1), (1, 1), (1, 1)]
    assert _places(plan, 6) == [(0, 1)]


@every_policy
def test_a_loan_is_kept_while_nobody_needs_it(name: str) -> None:
    """The next rounds neither move nor stop a borrower, and nobody gets a right by having borrowed."""
    config = _config(name)
    snapshot = _scattered(*(_job(1, arrival_s=20.0 + late) for late in range(4)))
    for _ in range(3):
        plan = plan_round(snapshot, config)

        assert plan.lent == {3, 4, 5, 6}
        assert not plan.preemptions
        snapshot = carried_out(snapshot, plan)


@every_policy
def test_borrowers_leave_when_the_share_fits(name: str) -> None:
    """A server comes free but for borrowers: the wide job starts at once; those that find no other room wait."""
    config = _config(name)
    snapshot = _scattered(*(_job(1, arrival_s=20.0 + late) for late in range(4)))
    first = plan_round(snapshot, config)
    left = only_jobs(carried_out(snapshot, first), np.arange(1, 7))
    plan = plan_round(left, config)

    wide = 1
    assert _places(plan, wide) == [(0, 4)]
    runs = set(plan.grants.job.tolist())
    rules = {stop.job: stop.rule for stop in plan.preemptions}
    assert rules == {row: PreemptRule.MOVED if row in runs else PreemptRule.NO_SHARE for row in rules}
    assert len(runs & {2, 3, 4, 5}) == 2
    assert not plan.lent


def test_a_borrower_with_a_share_of_its_own_stays_where_it_is() -> None:
    """Half of the other server comes free: all get shares, one of the borrowers starts elsewhere, the other stays."""
    config = _config("maxmin")
    servers = [*TWO_SERVERS, ServerRow(num_gpus=1)]
    jobs = [_job(2, (0, 2)), _job(2, (1, 2)), _job(4, arrival_s=10.0), *(_job(1, arrival_s=at) for at in (20.0, 30.0))]
    snapshot = snapshot_of([*jobs, _job(1, (2, 1))], servers)
    first = plan_round(snapshot, config)
    assert first.lent == {3, 4}
    plan = plan_round(only_jobs(carried_out(snapshot, first), np.array([0, 2, 3, 4, 5])), config)

    assert _places(plan, 1) == [(1, 4)]
    assert plan.kept >= {2, 3}
    assert not plan.preemptions
    assert not plan.lent


def test_one_of_many_borrowers_makes_room() -> None:
    """Of two borrowers with shares of their own only the one that sits where a wide job fits goes elsewhere."""
    config = _config("maxmin")
    borrowers = [
        replace(_job(1, (server, 1), arrival_s=20.0 + server), lent=True, preemptible=True) for server in (0, 1)
    ]
    snapshot = snapshot_of([_job(2, (0, 2)), _job(4, arrival_s=10.0), *borrowers], TWO_SERVERS)
    plan = plan_round(snapshot, config)

    assert _places(plan, 1) == [(1, 4)]
    assert 2 in plan.kept
    assert [stop.job for stop in plan.preemptions] == [3]
    assert _places(plan, 3) == [(0, 1)]


def test_an_elastic_job_that_loses_its_share_goes_on_with_its_least() -> None:
    """Nobody is stopped for a share that fits nowhere: it shrinks to what it must have."""
    elastic = replace(_job(3, (0, 2), arrival_s=20.0), preemptible=True, min_gpus=1, max_gpus=4, first_start_s=9_000.0)
    wide = replace(_job(4, arrival_s=10.0), first_start_s=5_000.0, executed_s=10.0)
    snapshot = snapshot_of([_job(2, (0, 2)), _job(2, (1, 2)), wide, elastic], TWO_SERVERS)
    plan = plan_round(snapshot, _config("maxmin"))

    assert _places(plan, 3) == [(0, 1)]
    assert plan.resized == {3}
    assert plan.lent == {3}
    assert not plan.preemptions


def test_a_borrower_that_may_not_be_stopped_keeps_its_seat() -> None:
    """Neither does it wait in vain, nor is it torn from what it has; it is known to have borrowed."""
    config = _config("maxmin")
    snapshot = _scattered(replace(_job(1, arrival_s=20.0), preemptible=False))
    first = plan_round(snapshot, config)
    second = plan_round(carried_out(snapshot, first), config)

    assert first.lent == second.lent == {3}
    assert 3 in second.kept


def test_loans_keep_within_what_a_queue_and_a_user_may_hold() -> None:
    """A queue that may not borrow lends nothing to itself; of one user's jobs as many borrow as its limit allows."""
    queues = [QueueRow(), QueueRow(quota_gpus=1, may_borrow=False)]
    borrowers = [replace(_job(1, arrival_s=20.0 + late), queue=1) for late in range(2)]
    snapshot = _scattered(*borrowers)
    queued = snapshot_of([_job(2, (0, 2)), _job(2, (1, 2)), _job(4, arrival_s=10.0), *borrowers], TWO_SERVERS, queues)
    assert len(set(plan_round(queued, _config("maxmin")).grants.job.tolist()) & {3, 4}) == 1
    limited = replace(snapshot.queues, user_max_gpus=np.array([9]))
    one_user = snapshot_of([*(_job(2, (at, 2)) for at in (0, 1)), _job(4), *(_job(1, arrival_s=9.0),) * 2], TWO_SERVERS)

    assert plan_round(replace(one_user, queues=limited), _config("maxmin")).lent == {3}


@every_policy
def test_a_borrower_stays_while_jobs_outside_the_round_leave(name: str) -> None:
    """A borrower has a share now; GPUs that another job is leaving count once while its seats are tried."""
    borrower = replace(_job(1, (1, 1)), lent=True, preemptible=True)
    snapshot = snapshot_of([borrower], [ServerRow(num_gpus=1), ServerRow(num_gpus=2)], releasing=[(1, 1)])

    plan = plan_round(snapshot, _config(name))

    assert plan.kept == {0}
