"""What a plan says of jobs, as columns and one by one."""

import numpy as np
import pytest

from scheduler.core.model.plan import Cause, Preemption, Preemptions, PreemptRule, Waiting, WaitReason, Waits

FULL: Cause = (WaitReason.NO_CAPACITY, {"needed_gpus": 2})
LIMIT: Cause = (WaitReason.USER_LIMIT, {"user_max_gpus": 4})


def test_who_waits_is_read_one_by_one() -> None:
    """The place in the line is that among the columns, from 1; parts and the end are reached as in a list."""
    waits = Waits(job=np.array([7, 3, 5]), causes=[FULL] * 3)

    last = Waiting(job=5, position=3, reason=WaitReason.NO_CAPACITY, evidence={"needed_gpus": 2})
    assert [entry.position for entry in waits] == [1, 2, 3]
    assert waits[-1] == last
    assert waits[2:] == [last]
    with pytest.raises(IndexError):
        waits[3]


def test_some_wait_for_another_cause() -> None:
    """A job that is not named keeps its cause; naming a job that does not wait is no error."""
    waits = Waits(job=np.array([7, 3]), causes=[FULL] * 2).with_causes({3: LIMIT, 9: LIMIT})

    assert waits.causes == [FULL, LIMIT]


def test_who_leaves_is_the_same_as_columns() -> None:
    """From entries to columns and back nothing is lost."""
    entries = [
        Preemption(job=4, rule=PreemptRule.POLICY_ORDER, by_job=1, evidence={"position": 3}),
        Preemption(job=2, rule=PreemptRule.SERVER_GONE, by_job=-1, evidence={"num_gpus": 8}),
    ]

    assert [*Preemptions.of(entries)] == entries
    assert not Preemptions.of([])
