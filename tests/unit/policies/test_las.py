"""Levels, promotion and self-made changes of least attained service of Tiresias."""

import math

import numpy as np

from scheduler.core.round.capabilities import ChangesBySelf, Promotes
from scheduler.policies.fifo import Fifo
from scheduler.policies.las import Las
from scheduler.policies.srtf import Srtf
from tests.support.simulator.replays import job, replay
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of

RUNS = ((0, 1),)
SERVERS = [ServerRow()]


def test_a_wide_job_falls_sooner_than_a_narrow_one() -> None:
    """Tiresias example B: K=2, Q=3250: 8 GPUs leave the top level after 407 s, 1 GPU after 3250 s."""
    snapshot = snapshot_of([JobRow(num_gpus=8, seats=((0, 8),)), JobRow(num_gpus=1, seats=RUNS)], SERVERS)

    assert Las().next_change_s(snapshot.jobs).tolist() == [407, 3250]


def test_a_limit_that_is_reached_is_crossed() -> None:
    """Attained service at the limit counts as over it: a_J >= Q_i^hi."""
    snapshot = snapshot_of([JobRow(attained_gpu_s=service) for service in (0, 3249.9, 3250, 7200, 20_000)], SERVERS)

    assert Las(queue_limits_gpu_s=(3250, 7200)).levels(snapshot.jobs).tolist() == [0, 0, 1, 2, 2]


def test_the_last_level_is_never_left() -> None:
    """A running job in the last level changes nothing by itself."""
    snapshot = snapshot_of([JobRow(attained_gpu_s=9_999, seats=RUNS)], SERVERS)

    assert Las().next_change_s(snapshot.jobs).tolist() == [math.inf]


def test_promotion_after_waiting_twice_as_long_as_it_ran() -> None:
    """Tiresias example C: PROMOTEKNOB 2, demoted after 600 s of running: promoted after 1200 s of waiting."""
    policy = Las(queue_limits_gpu_s=(600,), promote_after=2)
    snapshot = snapshot_of(
        [JobRow(attained_gpu_s=600, executed_s=600, waited_s=waited) for waited in (0, 1199, 1200)]
        + [JobRow(attained_gpu_s=600, executed_s=600, waited_s=1200, seats=RUNS), JobRow(waited_s=5_000)],
        SERVERS,
    )

    assert policy.promoted(snapshot.jobs).tolist() == [False, False, True, False, False]
    assert policy.next_change_s(snapshot.jobs)[:3].tolist() == [1200, 1, 0]


def test_promotion_is_off_by_default() -> None:
    """Without promote_after no job is promoted, however long it waits."""
    snapshot = snapshot_of([JobRow(attained_gpu_s=9_999, executed_s=1, waited_s=1e9)], SERVERS)

    assert not Las().promoted(snapshot.jobs).any()
    assert Las().next_change_s(snapshot.jobs).tolist() == [math.inf]


def test_levels_of_one_unit_take_turns() -> None:
    """Tiresias example A, 2D-LAS with time unit 1: completion at 5, 14 and 16, 11.67 on average."""
    jobs = [job(2, 2.0), job(1, 8.0), job(2, 6.0)]
    outcome = replay(jobs, "las", {"queue_limits_gpu_s": list(range(1, 17))}, round_s=1.0)

    assert outcome.records.end_s.tolist() == [5, 14, 16]


def test_a_wide_job_is_passed_by_narrow_ones_of_its_level() -> None:
    """Tiresias example D: X (4 GPUs), Y (8), Z (2) with 6 free: X and Z run, Y is skipped."""
    jobs = [job(2, 100.0), job(4, 10.0), job(8, 10.0), job(2, 10.0)]
    outcome = replay(jobs, "las", servers=(8,))

    assert outcome.records.first_start_s.tolist() == [0, 0, 100, 0]


def test_only_some_policies_change_by_themselves() -> None:
    """A shell asks a policy whether it promotes or changes, never for its name."""
    assert isinstance(Las(), Promotes)
    assert isinstance(Las(), ChangesBySelf)
    assert not isinstance(Fifo(), Promotes | ChangesBySelf)
    assert not isinstance(Srtf(), Promotes | ChangesBySelf)


def test_fifo_and_srtf_order_by_their_one_column() -> None:
    """Arrival for the one, remaining time for the other, unknown last."""
    snapshot = snapshot_of(
        [JobRow(arrival_s=2, remaining_s=5), JobRow(arrival_s=1), JobRow(arrival_s=3, remaining_s=4)], SERVERS
    )

    assert np.argsort(Fifo().priority(snapshot)).tolist() == [1, 0, 2]
    assert np.argsort(Srtf().priority(snapshot)).tolist() == [2, 0, 1]
