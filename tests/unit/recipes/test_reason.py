"""The recipe for a reason to wait: places that no other test misses when a member of ``WaitReason`` is added."""

from frontend.pages.jobs.waiting.why import OF_PLACE
from scheduler.core.model.plan import Evidence, WaitReason
from scheduler.core.operations.needed_change import needed_change
from scheduler.core.operations.place_in_line import HELD_BACK, OF_ONE_JOB

# Numbers with which every reason that may need a change needs one.
WORST: Evidence = {
    "needed_gpus": 9,
    "queue_quota_gpus": 1,
    "queue_max_gpus": 1,
    "user_max_gpus": 1,
    "largest_possible_gpus": 1,
    "barred_servers": 2,
    "servers": 2,
    "stuck_job": "J-1",
}
# What has to change for all jobs alike, and so costs no job its place in line.
OF_ALL_JOBS = {WaitReason.NO_SERVER, WaitReason.HELD, WaitReason.POLICY_PAUSED, WaitReason.SCHEDULER_STALE}
# Reasons of which free devices say nothing.
NOT_OF_PLACE = {
    WaitReason.NEW,
    WaitReason.QUEUE_QUOTA,
    WaitReason.QUEUE_MAX,
    WaitReason.USER_LIMIT,
    WaitReason.ARRAY_LIMIT,
    WaitReason.DEPENDENCY,
    WaitReason.BACKOFF,
    WaitReason.HELD,
    WaitReason.POLICY_PAUSED,
    WaitReason.SCHEDULER_STALE,
}


def test_what_needs_a_change_says_whether_it_has_a_place_in_line() -> None:
    """A reason of one job alone that is not in OF_ONE_JOB would count as a job ahead of the others for ever."""
    needs_change = {reason for reason in WaitReason if needed_change(reason, WORST)}

    assert needs_change - HELD_BACK - OF_ALL_JOBS == OF_ONE_JOB
    assert needs_change >= OF_ALL_JOBS


def test_each_reason_says_whether_free_devices_are_evidence() -> None:
    """The page *Why and when* shows the servers for some reasons only."""
    assert set(WaitReason) == OF_PLACE ^ NOT_OF_PLACE
