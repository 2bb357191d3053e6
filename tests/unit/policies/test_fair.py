"""Weighted fair queues."""

import numpy as np
import pytest

from scheduler.choices import build_config
from scheduler.core.round.plan_round import plan_round
from scheduler.policies.fair import Fair, queue_weights
from tests.support.simulator.strategies import JobRow, QueueRow, ServerRow, snapshot_of

TWO = [QueueRow(weight=2.0), QueueRow(weight=1.0)]


def served(rows: list[JobRow], queues: list[QueueRow], **options: object) -> list[int]:
    """Return the rows that run after a round on 8 GPUs."""
    config = build_config(policy="fair", policy_options=options, mechanism="proportional")
    return sorted({*plan_round(snapshot_of(rows, [ServerRow()], queues), config).grants.job.tolist()})


def test_queues_are_served_in_turn_by_weight() -> None:
    """Weights 2 and 1: two jobs of the first for one of the second, first come first served inside."""
    rows = [JobRow(queue=row % 2, arrival_s=float(row)) for row in range(12)]
    keys = Fair().priority(snapshot_of(rows, [ServerRow()], TWO))
    order = np.lexsort((np.arange(12), keys)).tolist()

    assert [rows[row].queue for row in order[:6]] == [0, 1, 0, 1, 0, 0]  # a tie goes to the earlier job
    assert [row for row in order if rows[row].queue == 1] == [1, 3, 5, 7, 9, 11]


def test_queues_that_hold_the_same_for_the_same_weight_tie() -> None:
    """In jobs of 3 GPUs or of 1, and though a fifteenth of the cluster is no finite binary number."""
    rows = [JobRow(queue=row % 3, num_gpus=(3, 3, 1)[row % 3], arrival_s=float(row)) for row in range(120)]
    queues = [QueueRow(weight=weight) for weight in (1.0, 7.0, 7.0)]
    keys = Fair().priority(snapshot_of(rows, [ServerRow()], queues))
    wide, narrow = keys[1::3], keys[2::3]

    assert wide[:14].tolist() == narrow[::3].tolist()


def test_what_a_queue_holds_counts() -> None:
    """The first queue holds 6 of 8 GPUs: both free ones go to the second although the first has waited longer."""
    rows = [JobRow(num_gpus=6, seats=((0, 6),)), JobRow(), JobRow(arrival_s=5, queue=1), JobRow(arrival_s=6, queue=1)]

    assert served(rows, [QueueRow(), QueueRow()]) == [0, 2, 3]


def test_taking_back_is_an_option() -> None:
    """A queue that holds everything gives half of it back only where jobs may be stopped."""
    rows = [JobRow(num_gpus=4, held_at_s=float(at), first_start_s=float(at), seats=((0, 4),)) for at in (1, 2)]
    rows += [JobRow(num_gpus=4, queue=1, arrival_s=50.0)]

    assert served(rows, [QueueRow(), QueueRow()]) == [0, 1]
    assert served(rows, [QueueRow(), QueueRow()], preemptive=True) == [0, 2]


def test_an_order_that_is_fair_stays_as_it_is() -> None:
    """After a queue has got its share back no job is stopped again: no ping-pong."""
    rows = [JobRow(num_gpus=4, first_start_s=1.0, seats=((0, 4),)), JobRow(num_gpus=4, first_start_s=2.0)]
    rows += [JobRow(num_gpus=4, queue=1, first_start_s=3.0, seats=((0, 4),))]

    assert served(rows, [QueueRow(), QueueRow()], preemptive=True) == [0, 2]


def test_weights_go_down_the_tree_among_queues_with_jobs() -> None:
    """Root of 3 to 1; below the first children of 1 and 2, one of them idle, and jobs of its own with weight 3."""
    rows = [QueueRow(weight=3.0), QueueRow(), QueueRow(parent=0), QueueRow(parent=0, weight=2.0), QueueRow(weight=9.0)]
    queues = snapshot_of([], [ServerRow()], rows).queues

    parts = queue_weights(queues, np.array([0, 1, 2]))
    assert parts.tolist() == pytest.approx([0.75 * 3 / 4, 0.25, 0.75 / 4, 1.0, 1.0])
