"""Philly-like jobs: the numbers of the study and of Gavel's extract."""

import math
import time
from statistics import fmean

import numpy as np
import pytest

from scheduler.core.operations.failures import OWN, FailureClass
from scheduler.simulator.draws import DAY_S, WEEK_S, Draws, arrivals, whole_shares
from scheduler.simulator.traces.trace import offered_load
from scheduler.simulator.workloads import philly_like, philly_quotas
from scheduler.simulator.workloads.philly import EMPIRICAL_GANGS, SIMPLE_GANGS, WIDE_GANGS


def test_simple_jobs_last_16_8_hours_on_average() -> None:
    """10^U(1.5, 3) minutes for four of five, 10^U(3, 4) for the fifth: 1,006 minutes; gangs as Gavel draws them."""
    part = (1000 - 10**1.5) / (1.5 * math.log(10))
    exact_h = (0.8 * part + 0.2 * 9000 / math.log(10)) / 60

    jobs = philly_like(num_jobs=50_000, cluster_gpus=2504, seed=3)

    run_h = np.array([job.run_s for job in jobs]) / 3600
    assert exact_h == pytest.approx(16.8, abs=0.05)
    assert run_h.mean() == pytest.approx(exact_h, rel=0.03)
    assert run_h.min() >= 10**1.5 / 60
    assert run_h.max() <= 10_000 / 60
    assert (run_h <= 1000 / 60).mean() == pytest.approx(0.8, abs=0.01)
    for gpus, share in SIMPLE_GANGS.items():
        assert fmean(job.num_gpus == gpus for job in jobs) == pytest.approx(share, abs=0.01)


def test_empirical_jobs_have_the_quantiles_of_the_extract() -> None:
    """p10 1.27 h, p50 4.0 h, p75 17.3 h, p90 69.5 h, p95 152 h, p99 549 h; the mean, not set, comes out at 33 h.

    Of GPU time, gangs of 2, 4 and 8 have the shares .03, .19 and .59 to within a tenth; single GPUs fall short.
    """
    jobs = philly_like(num_jobs=50_000, cluster_gpus=2504, seed=3, kind="empirical")

    run_h = np.array([job.run_s for job in jobs]) / 3600
    num_gpus = np.array([job.num_gpus for job in jobs])
    work = [float((run_h * num_gpus)[num_gpus == gpus].sum() / (run_h * num_gpus).sum()) for gpus in (2, 4, 8)]
    assert run_h.min() >= 1.0
    quantiles = np.percentile(run_h, [10, 50, 75, 90, 95, 99])
    assert quantiles == pytest.approx([1.27, 4.0, 17.3, 69.5, 152, 549], rel=0.05)
    assert run_h.mean() == pytest.approx(32.7, rel=0.03)
    assert work == pytest.approx([0.03, 0.19, 0.59], abs=0.1)
    for gpus, share in EMPIRICAL_GANGS.items():
        assert fmean(job.num_gpus == gpus for job in jobs) == pytest.approx(share, abs=0.01)


@pytest.mark.parametrize("gpus", [1, 2, 8, 2504])
def test_a_week_of_jobs_fits_the_cluster_it_is_drawn_for(gpus: int) -> None:
    """Jobs arrive for a week whatever the cluster, ask for the load, and none for more than a 20th of the week."""
    jobs = philly_like(days=7, cluster_gpus=gpus, load=0.9, seed=1)

    assert jobs[-1].arrival_s == pytest.approx(WEEK_S, abs=1)
    assert offered_load(jobs, cluster_gpus=gpus) == pytest.approx(0.9, abs=0.08)
    assert max(job.num_gpus * job.run_s for job in jobs) <= 0.05 * gpus * WEEK_S + 1
    assert max(job.num_gpus for job in jobs) <= gpus
    assert len(jobs) > 20


def test_wide_jobs_have_gangs_of_16_and_32() -> None:
    """1.7 % and 0.6 %, as in the virtual clusters; never wider than the cluster."""
    jobs = philly_like(num_jobs=20_000, cluster_gpus=2504, seed=3, kind="wide")
    small = philly_like(num_jobs=500, cluster_gpus=4, seed=3, kind="wide")

    for gpus, share in WIDE_GANGS.items():
        assert fmean(job.num_gpus == gpus for job in jobs) == pytest.approx(share, abs=0.01)
    assert max(job.num_gpus for job in small) == 4


def test_short_runs_replace_their_share() -> None:
    """55 % with a median of 6 minutes."""
    jobs = philly_like(num_jobs=20_000, cluster_gpus=2504, seed=3, kind="empirical", short_share=0.55)

    short_s = [job.run_s for job in jobs if job.run_s < 3600]
    assert len(short_s) / 20_000 == pytest.approx(0.55 * 0.95, abs=0.02)
    assert np.median(short_s) == pytest.approx(360, rel=0.15)


@pytest.mark.parametrize("diurnal", [False, True])
@pytest.mark.parametrize("load", [0.5, 0.9, 1.2])
def test_the_load_is_the_share_of_capacity_that_was_asked_for(load: float, diurnal: bool) -> None:
    """Over tens of weeks."""
    jobs = philly_like(num_jobs=20_000, cluster_gpus=512, load=load, seed=5, diurnal=diurnal)

    assert offered_load(jobs, cluster_gpus=512) == pytest.approx(load, rel=0.03)


def test_arrivals_follow_day_and_week() -> None:
    """Three times as many at 3 in the afternoon as at 3 in the morning; six tenths on a day of the weekend."""
    times = arrivals(Draws(1, "test"), 400_000, mean_gap_s=60.0, diurnal=True)

    hour = (times % DAY_S) // 3600
    weekday = times % WEEK_S < 5 * DAY_S
    assert np.all(np.diff(times) >= 0)
    assert (hour == 15).sum() / (hour == 3).sum() == pytest.approx(3.0, rel=0.05)
    assert (~weekday).sum() / 2 / (weekday.sum() / 5) == pytest.approx(0.6, rel=0.05)
    assert times[-1] == pytest.approx(400_000 * 60, rel=0.01)


def test_virtual_clusters_ask_for_less_and_more_than_their_quota() -> None:
    """14 quotas by Zipf 0.9, 10 to 40 users each, loads from 0.4 to 1.6 of the mean."""
    quotas = philly_quotas(cluster_gpus=2504, num_queues=14)
    jobs = philly_like(num_jobs=50_000, cluster_gpus=2504, seed=2, num_queues=14)

    asked = np.bincount([job.queue for job in jobs], minlength=14) / 50_000
    ratio = asked / (np.array(quotas) / 2504)
    users = {queue: len({job.owner for job in jobs if job.queue == queue}) for queue in range(14)}
    assert sum(quotas) == 2504
    assert quotas == sorted(quotas, reverse=True)
    assert quotas[0] / quotas[13] == pytest.approx(14**0.9, rel=0.05)
    assert ratio.min() < 0.8
    assert ratio.max() > 1.2
    assert ratio.max() / ratio.min() < 1.6 / 0.4 * 1.1
    assert all(5 <= count <= 40 for count in users.values())
    assert len({(job.owner, job.queue) for job in jobs}) == len({job.owner for job in jobs})


def test_failures_are_those_of_the_study() -> None:
    """20, 30 and 40 % of jobs fail by gang; three of four for the user's errors, after a median of two minutes."""
    jobs = philly_like(num_jobs=60_000, cluster_gpus=2504, seed=4, kind="wide", failures=True)

    for least, most, chance in ((1, 1, 0.20), (2, 4, 0.30), (5, 99, 0.40)):
        gang = [job for job in jobs if least <= job.num_gpus <= most]
        assert fmean(bool(job.failures) for job in gang) == pytest.approx(chance, abs=0.02)
    failing = [job for job in jobs if job.failures]
    cause = [FailureClass(job.failures[0].cause) for job in failing]
    after_s = np.array([job.failures[0].after_s for job in failing])
    semantic = np.array([one is FailureClass.SEMANTIC for one in cause])
    machine = np.array([one not in OWN for one in cause])
    users = ~semantic & ~machine
    assert users.mean() == pytest.approx(0.75, abs=0.02)
    assert semantic.mean() == pytest.approx(0.15, abs=0.02)
    assert machine.mean() == pytest.approx(0.10, abs=0.02)
    assert np.median(after_s[users]) == pytest.approx(120, rel=0.1)
    assert np.median(after_s[machine]) == pytest.approx(6 * 3600, rel=0.15)
    assert {len(job.failures) for job, is_machine in zip(failing, machine, strict=True) if is_machine} == {1}
    assert {len(job.failures) for job, is_machine in zip(failing, machine, strict=True) if not is_machine} == {5}


def test_semantic_errors_of_wide_gangs_come_late() -> None:
    """The median grows with the root of the GPUs: 40 minutes on one, 113 on eight."""
    jobs = philly_like(num_jobs=100_000, cluster_gpus=2504, seed=4, failures=True)

    for gpus in (1, 8):
        after_s = [
            job.failures[0].after_s
            for job in jobs
            if job.num_gpus == gpus and job.failures and job.failures[0].cause == FailureClass.SEMANTIC
        ]
        assert np.median(after_s) == pytest.approx(2400 * math.sqrt(gpus), rel=0.25)


def test_the_same_seed_gives_the_same_jobs_and_options_do_not_disturb_each_other() -> None:
    """Turning failures or queues on changes no gang, length or arrival; another seed changes all."""
    plain = philly_like(num_jobs=200, cluster_gpus=128, seed=1)
    again = philly_like(num_jobs=200, cluster_gpus=128, seed=1)
    more = philly_like(num_jobs=200, cluster_gpus=128, seed=1, num_queues=14, failures=True)
    other = philly_like(num_jobs=200, cluster_gpus=128, seed=2)

    sizes = [[(job.arrival_s, job.num_gpus, job.run_s) for job in jobs] for jobs in (plain, more, other)]
    assert plain == again
    assert sizes[0] == sizes[1]
    assert sizes[0] != sizes[2]


def test_the_jobs_of_a_seed_are_these() -> None:
    """The first three of seed 0, on every machine and in every version."""
    jobs = philly_like(num_jobs=3, cluster_gpus=128, seed=0)

    assert [(job.arrival_s, job.num_gpus, job.run_s) for job in jobs] == [
        (1808.798, 1, 2198.203),
        (2407.71, 4, 10387.357),
        (2810.199, 4, 44417.741),
    ]


def test_a_hundred_thousand_jobs_take_less_than_two_seconds() -> None:
    """CPU time, with queues and failures."""
    began = time.process_time()

    philly_like(num_jobs=100_000, cluster_gpus=2504, seed=1, num_queues=14, failures=True)

    assert time.process_time() - began < 2.0


@pytest.mark.parametrize(
    "bad",
    [
        {"num_jobs": 0},
        {"cluster_gpus": 0},
        {"load": 0.0},
        {"load": math.nan},
        {"load": math.inf},
        {"short_share": 1.5},
        {"num_queues": 0},
    ],
)
def test_numbers_out_of_range_are_refused(bad: dict[str, float]) -> None:
    """Before anything is drawn."""
    with pytest.raises(ValueError, match=r"at least 1|positive|from 0 to 1"):
        philly_like(**{"num_jobs": 10, "cluster_gpus": 8, **bad})  # type: ignore[arg-type]


def test_whole_shares_add_up() -> None:
    """The largest remainders get what rounding down left over; ties go to the first."""
    assert whole_shares(10, np.array([1.0, 1.0, 1.0])) == [4, 3, 3]
    assert whole_shares(7, np.array([0.5, 0.25, 0.25])) == [3, 2, 2]
    assert whole_shares(0, np.array([1.0])) == [0]
