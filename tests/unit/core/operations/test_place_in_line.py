"""Places in line after a round; ``tests/support/oracle/told/line.py`` holds them against random rounds."""

from scheduler.choices import build_config
from scheduler.core.model.plan import Evidence, WaitReason
from scheduler.core.operations.place_in_line import line_of
from scheduler.core.operations.reasons import sentence
from scheduler.core.operations.wait_checks import failing_check
from scheduler.core.round.plan_round import plan_round
from tests.support.simulator.strategies import JobRow, ServerRow, snapshot_of

FIFO = build_config(policy="fifo", mechanism="proportional")
SRTF = build_config(policy="srtf", mechanism="proportional")
SERVER = ServerRow(num_gpus=4, num_cpus=12.0)


def test_a_job_that_can_never_start_is_ahead_of_none() -> None:
    """The places of the others have no gap where it stands in the order."""
    jobs = [JobRow(num_gpus=4, seats=((0, 4),)), *(JobRow(num_gpus=gpus) for gpus in (1, 9, 2))]

    line = line_of(plan_round(snapshot_of(jobs, [SERVER]), FIFO))

    assert [(job, place) for job, place, _ in line] == [(1, 1), (2, None), (3, 2)]
    assert [cause[0] for _, _, cause in line][1:] == [WaitReason.NEVER_FEASIBLE, WaitReason.BEHIND_POLICY_ORDER]


def test_the_first_in_line_waits_for_running_jobs_alone() -> None:
    """Those that run come before it in the order, but none that waits does: it is short of room, not behind others."""
    jobs = [JobRow(num_gpus=4, seats=((0, 4),)), JobRow(num_gpus=2), JobRow(num_gpus=2)]
    plan = plan_round(snapshot_of(jobs, [SERVER]), FIFO)
    first, second = (cause for _, _, cause in line_of(plan))

    assert [reason for reason, _ in plan.waiting.causes] == [WaitReason.BEHIND_POLICY_ORDER] * 2
    assert (first[0], second[0]) == (WaitReason.NO_CAPACITY, WaitReason.BEHIND_POLICY_ORDER)
    assert failing_check(*first) == ("GPUs in the cluster", "needs 2, 0 free")
    assert sentence(*first) == "It needs 2 GPUs; none is free. It waits until running jobs give back 2."


def test_a_job_that_has_to_stop_takes_its_place_once_it_has() -> None:
    """Until then lists of waiting jobs do not show it, so no other is told to stand behind it."""
    jobs = [
        JobRow(num_gpus=4, seats=((0, 4),), remaining_s=90.0),
        JobRow(num_gpus=4, remaining_s=10.0),
        JobRow(num_gpus=4, remaining_s=99.0),
    ]

    line = line_of(plan_round(snapshot_of(jobs, [SERVER]), SRTF))

    assert [(job, place) for job, place, _ in line] == [(0, None), (2, 1)]


def test_what_stood_behind_others_that_have_left_does_not_fail_the_check_of_jobs_ahead() -> None:
    """Until the next round its reason is the old one; the sentence, the check and the place say that it is first."""
    of_order: Evidence = {"ahead_jobs": 0, "needed_gpus": 2, "free_gpus": 0}
    in_strict_order: Evidence = {"ahead_jobs": 0, "needed_gpus": 2, "first_needs_gpus": 8}
    reason = WaitReason.BEHIND_POLICY_ORDER

    assert sentence(reason, of_order) == "Next in line; no GPU is free."
    assert failing_check(reason, of_order) == ("GPUs in the cluster", "needs 2, 0 free")
    assert sentence(reason, in_strict_order) == "Next in line. The next round looks at it again."
    assert failing_check(reason, in_strict_order) == ("Rounds", "none since it came first in line")
