"""Most important first, with and without preemption and backfill."""

import numpy as np

from scheduler.choices import build_config
from scheduler.core.model.plan import PreemptRule
from scheduler.core.round.plan_round import plan_round
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of


def running_after(rows: list[JobRow], **options: bool) -> set[int]:
    """Return the jobs that run after a round on one server of 8 GPUs."""
    config = build_config(policy="priority", policy_options=options, mechanism="proportional")
    return {*plan_round(snapshot_of(rows, [ServerRow()]), config).grants.job.tolist()}


def test_larger_priority_first_then_earlier_submission() -> None:
    """Ties of the key go by arrival, as under every policy."""
    rows = [JobRow(num_gpus=8, priority=50, arrival_s=1), JobRow(num_gpus=8, priority=90, arrival_s=3)]
    rows += [JobRow(num_gpus=8, priority=90, arrival_s=2), JobRow(num_gpus=8, priority=10)]
    snapshot = snapshot_of(rows, [ServerRow()])
    config = build_config(policy="priority", mechanism="proportional")

    assert plan_round(snapshot, config).order == [2, 1, 0, 3]


def test_a_more_important_job_waits_unless_it_may_stop_others() -> None:
    """Preemption is an option, off by default."""
    rows = [JobRow(num_gpus=8, priority=10, seats=((0, 8),)), JobRow(num_gpus=8, priority=90)]
    config = build_config(policy="priority", policy_options={"preemptive": True}, mechanism="proportional")
    plan = plan_round(snapshot_of(rows, [ServerRow()]), config)

    assert running_after(rows) == {0}
    assert running_after(rows, preemptive=True) == {1}
    assert [stopped.rule for stopped in plan.preemptions] == [PreemptRule.POLICY_ORDER]


def test_equals_never_stop_each_other() -> None:
    """A running job has started first, so a waiting equal comes after it."""
    rows = [JobRow(num_gpus=8, first_start_s=5.0, arrival_s=4.0, seats=((0, 8),)), JobRow(num_gpus=8)]

    assert running_after(rows, preemptive=True) == {0}


def test_backfill_is_an_option() -> None:
    """The important job needs 8 GPUs, 2 of them are taken: the small one fills up, or stands in line."""
    rows = [JobRow(num_gpus=2, seats=((0, 2),)), JobRow(num_gpus=8, priority=90), JobRow(num_gpus=4)]

    assert running_after(rows) == {0, 2}
    assert running_after(rows, backfill=False) == {0}


def test_keys_are_priorities_alone() -> None:
    """Nothing but the number counts, fractions and negative ones too."""
    rows = [JobRow(priority=value) for value in (0.5, -3.0, 7.0)]
    config = build_config(policy="priority")

    assert np.argsort(config.policy.priority(snapshot_of(rows, [ServerRow()]))).tolist() == [2, 0, 1]
