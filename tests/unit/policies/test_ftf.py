"""Finish-time fairness as an order: the most delayed job first."""

import math
import random
from dataclasses import replace

import numpy as np
import pytest

from scheduler.policies.ftf import Ftf, fairness
from scheduler.policies.math import leases
from tests.support.simulator.replays import job, replay
from tests.support.simulator.strategies import NOW_S, JobRow, ServerRow, snapshot_of


def rho(row: JobRow, servers: int = 1) -> float:
    """Return the finish-time fairness of one job."""
    return float(fairness(snapshot_of([row], [ServerRow()] * servers))[0])


def test_alone_on_the_cluster_nobody_is_delayed() -> None:
    """Just arrived, no other job: finish time is that on the whole cluster, rho 1; less when it runs faster."""
    assert rho(JobRow(num_gpus=4, arrival_s=NOW_S, remaining_s=600.0, total_s=600.0)) == 1.0
    assert rho(JobRow(num_gpus=4, arrival_s=NOW_S - 300, remaining_s=100.0, total_s=600.0)) == pytest.approx(2 / 3)


def test_equal_jobs_with_equal_shares_get_what_is_fair() -> None:
    """Four jobs of 2 GPUs share 8: each has what it would have on its quarter, rho 1 at every moment."""
    for ran_s in (0.0, 150.0, 599.0):
        row = JobRow(num_gpus=2, arrival_s=NOW_S - ran_s, remaining_s=600.0 - ran_s, total_s=600.0, sharers=4.0)
        assert rho(row) == pytest.approx(1.0)


def test_a_gang_wider_than_its_share_would_take_longer_alone() -> None:
    """8 GPUs beside three others: on 2 GPUs it would take four times as long, so 600 s of waiting are rho .5."""
    row = JobRow(num_gpus=8, arrival_s=NOW_S - 600, remaining_s=600.0, total_s=600.0, sharers=4.0)

    assert rho(row) == pytest.approx(1_200 / 2_400)


def test_the_largest_goes_first_and_unknown_lengths_last() -> None:
    """Sorted ascending it would favour jobs that are ahead already."""
    late, lucky = [JobRow(arrival_s=NOW_S - ago, remaining_s=100.0, total_s=100.0) for ago in (900, 10)]
    snapshot = snapshot_of([lucky, JobRow(arrival_s=0.0), late], [ServerRow()])
    keys = Ftf().priority(snapshot)

    assert np.argsort(keys).tolist() == [2, 0, 1]
    assert keys.tolist() == pytest.approx([-1.1, math.inf, -10.0])


def test_keys_drift_while_somebody_waits() -> None:
    """A running job alone keeps its place; one that waits rises all the time."""
    runs, waits = JobRow(seats=((0, 1),)), JobRow()

    assert Ftf().next_change_s(snapshot_of([runs], [ServerRow()]).jobs).tolist() == [math.inf]
    assert Ftf().next_change_s(snapshot_of([runs, waits], [ServerRow()]).jobs).tolist() == [1, 1]


def test_nobody_comes_before_a_job_whose_lease_goes_on() -> None:
    """A lease of 20 minutes ends after 1200 s, again after 2400 s, each time for one round of 60 s."""
    ran_s = (0.0, 1_199.0, 1_200.0, 1_259.0, 1_260.0, 2_399.0, 2_400.0, 2_460.0)
    runs = [JobRow(seats=((0, 1),), held_at_s=NOW_S - since, remaining_s=9.0, total_s=9.0) for since in ran_s]
    snapshot = snapshot_of([*runs, JobRow(remaining_s=9.0, total_s=9.0)], [ServerRow(num_gpus=8)])

    in_lease = Ftf().priority(snapshot) == -math.inf
    assert in_lease.tolist() == [True, True, False, False, True, True, False, True, False]
    assert np.isfinite(Ftf(lease_s=0.0).priority(snapshot)).all()


def test_a_lease_that_is_won_again_is_no_restart() -> None:
    """The long job is the less delayed one until the other has been waiting for long: it keeps its GPU meanwhile."""
    jobs = [job(1, 6_000.0), job(1, 6_000.0, arrival_s=5_000.0)]
    outcome = replay(jobs, "ftf", servers=(1,), round_s=60.0)

    assert outcome.records.preemptions.tolist() == [0, 0]
    assert outcome.records.end_s.tolist() == [6_000.0, 12_000.0]


def test_leases_spare_preemptions() -> None:
    """Two jobs for one GPU: in turns of 20 minutes instead of round by round; no job ends later by more than that."""
    jobs = [job(1, 12_000.0), job(1, 12_000.0, arrival_s=60.0)]
    leased, free = (replay(jobs, "ftf", {"lease_s": lease_s}, servers=(1,), round_s=60.0) for lease_s in (1_200, 0))

    assert leased.records.preemptions.sum() <= 20 < 100 < free.records.preemptions.sum()
    assert (leased.records.end_s <= free.records.end_s + 1_200).all()


def test_short_jobs_do_not_starve_behind_a_long_one() -> None:
    """A long job holds the only GPU; the short one that comes takes over when the lease ends."""
    jobs = [job(1, 10_000.0), job(1, 100.0, arrival_s=1_000.0)]
    fifo, ftf = (replay(jobs, policy, servers=(1,), round_s=60.0) for policy in ("fifo", "ftf"))

    assert fifo.records.jct_s[1] > 9_000
    assert ftf.records.jct_s[1] == 1_200 - 1_000 + 100
    assert ftf.records.end_s[0] <= 10_100 + 60 * 4


def test_equal_delays_tie() -> None:
    """12000 s over 6000 x 4 x 4.5 / 10 s and 100000 s over 90000 s are both 10/9, whatever floats make of them."""
    rows = [
        JobRow(num_gpus=4, arrival_s=4_000.0, remaining_s=6_000.0, total_s=6_000.0, sharers=4.5),
        JobRow(num_gpus=2, remaining_s=90_000.0, total_s=90_000.0),
    ]
    keys = Ftf().priority(snapshot_of(rows, [ServerRow(num_gpus=10)]))

    assert keys[0] == keys[1] == pytest.approx(-10 / 9)


def test_key_of_one_job_is_that_of_its_column() -> None:
    """To the last bit, also for lengths that are unknown and for gangs that would be slower alone."""
    draw = random.Random(1)
    rows = [
        JobRow(
            num_gpus=draw.choice([1, 2, 8]),
            arrival_s=NOW_S - draw.uniform(0.0, 90_000.0),
            remaining_s=draw.choice([0.0, math.inf, draw.uniform(0.0, 5_000.0)]),
            total_s=draw.uniform(1.0, 90_000.0),
            sharers=draw.uniform(1.0, 40.0),
        )
        for _ in range(300)
    ]
    snapshot = snapshot_of(rows, [ServerRow()] * 2)
    keys = [
        Ftf().key(NOW_S - row.arrival_s + row.remaining_s, row.total_s, row.num_gpus, row.sharers, 16) for row in rows
    ]

    assert keys == Ftf().priority(snapshot).tolist()


@pytest.mark.parametrize("round_s", [1.0, 60.0, 900.0])
def test_lease_of_one_job_ends_when_that_of_its_column_does(round_s: float) -> None:
    """Also where rounds are longer than half a lease."""
    lease_s = 1_200.0
    ran_s = [0.0, 599.0, 1_199.0, 1_200.0, 1_259.0, 1_260.0, 1_799.0, 1_800.0, 2_399.0, 2_400.0, 2_460.0]
    runs = [JobRow(seats=((0, 1),), held_at_s=NOW_S - since) for since in ran_s]
    snapshot = replace(snapshot_of(runs, [ServerRow(num_gpus=16)]), round_s=round_s)

    assert [leases.ends(since, lease_s, round_s) for since in ran_s] == (~leases.in_lease(snapshot, lease_s)).tolist()
