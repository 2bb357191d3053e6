"""GPU indexes of a plan."""

from dataclasses import replace

from scheduler.choices import build_config
from scheduler.core.model.gpu_indexes import assign_gpu_ids
from scheduler.core.round.plan_round import plan_round
from scheduler.introspection.packing import Packing
from scheduler.introspection.slicing import Slicing
from tests.support.live.turns import Clock, introspective
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of

SRTF = build_config(policy="srtf", mechanism="proportional")


def test_a_job_that_stays_keeps_its_gpus_and_others_get_the_lowest_free_ones() -> None:
    """Kept jobs keep their indexes; new ones get free indexes in the order of the policy."""
    jobs = [JobRow(num_gpus=2, seats=((0, 2),)), JobRow(num_gpus=2, remaining_s=2), JobRow(remaining_s=1)]
    plan = plan_round(snapshot_of(jobs, [ServerRow()]), SRTF)

    assignment = assign_gpu_ids(plan, held={(0, 0): [5, 0]}, free={0: [1, 2, 3, 4, 6, 7]})

    assert assignment.gpus == {(0, 0): (0, 5), (2, 0): (1,), (1, 0): (2, 3)}
    assert assignment.deferred == {}


def test_a_grant_whose_gpus_are_still_held_is_deferred() -> None:
    """Until the preempted job has left, the grant waits, and says for how many GPUs."""
    jobs = [JobRow(num_gpus=8, remaining_s=9, seats=((0, 8),)), JobRow(num_gpus=4, remaining_s=1)]
    plan = plan_round(snapshot_of(jobs, [ServerRow()]), SRTF)

    assignment = assign_gpu_ids(plan, held={(0, 0): range(8)}, free={0: []})

    assert assignment.gpus == {}
    assert assignment.deferred == {1: 4}


def test_a_job_that_moves_is_deferred_until_it_has_left() -> None:
    """A running job with a grant on other servers is not there twice: it leaves first."""
    jobs = [
        JobRow(remaining_s=50, seats=((0, 1),)),
        JobRow(remaining_s=20, num_gpus=8, seats=((1, 8),)),
        JobRow(remaining_s=10, num_gpus=8),
        JobRow(remaining_s=5, num_gpus=7, seats=((2, 7),)),
    ]
    plan = plan_round(snapshot_of(jobs, [ServerRow()] * 3), SRTF)
    held = {(0, 0): [0], (1, 1): list(range(8)), (3, 2): list(range(7))}

    assignment = assign_gpu_ids(plan, held=held, free={0: [1, 2, 3, 4, 5, 6, 7], 1: [], 2: [7]})

    assert assignment.deferred == {2: 1, 0: 0}
    assert (0, 2) not in assignment.gpus


def test_jobs_that_share_gpus_get_the_same_ones() -> None:
    """A pair takes turns first, is packed on the GPU of one of them, and stays there."""
    snapshot = snapshot_of([JobRow(), JobRow()], [ServerRow(num_gpus=1)], now_s=0.0)
    clock = Clock(snapshot, introspective(Slicing(), Packing()))
    held: dict[tuple[int, int], tuple[int, ...]] = {}
    for _ in range(6):
        plan = clock.tick()
        assignment = assign_gpu_ids(plan, held=held, free={0: () if held else (0,)})
        if not plan.riding and assignment.deferred:  # whose turn it is waits for the other to leave
            held = {(job, 0): (0,) for job in assignment.deferred}
            continue
        held = assignment.gpus

    assert plan.riding
    assert held == {(0, 0): (0,), (1, 0): (0,)}


def test_a_guest_waits_with_its_host_for_gpus_that_are_still_held() -> None:
    """Neither has indexes before the GPU is free."""
    snapshot = snapshot_of([JobRow(), JobRow()], [ServerRow(num_gpus=1)], now_s=0.0)
    clock = Clock(snapshot, introspective(Slicing(), Packing()))
    while not clock.tick().riding:
        pass
    started = replace(clock.plan, kept=frozenset())
    assignment = assign_gpu_ids(started, held={}, free={0: ()})

    assert assignment.gpus == {}
    assert set(assignment.deferred) == {0, 1}
    assert assign_gpu_ids(started, held={}, free={0: (3,)}).gpus == {(0, 0): (3,), (1, 0): (3,)}
