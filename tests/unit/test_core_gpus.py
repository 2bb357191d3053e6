"""GPU indexes of a plan."""

from scheduler.choices import build_config
from scheduler.core.gpus import assign_gpu_ids
from scheduler.core.round import plan_round
from tests.strategies import JobRow, ServerRow, snapshot_of

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
