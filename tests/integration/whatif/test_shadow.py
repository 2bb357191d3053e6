"""The shadow policy: plans the very snapshot of each round, acts on nothing, and is replayed against the live one."""

import time
from datetime import timedelta
from typing import Any

import numpy as np
import pytest
from django.utils import timezone

from scheduler.core.model.errors import Conflict, NotAllowed, SpecInvalid
from scheduler.core.model.lifecycle import JobState
from scheduler.live.rounds.shadow_handover import MOST_WAITING, shadow_offer, snapshot_pack, snapshot_unpack
from scheduler.live.rounds.snapshot import snapshot_read
from scheduler.models import Event, Job, Lease, Shadow, ShadowRound, ShadowScore
from scheduler.services.cluster.settings import cluster_row, settings_change
from scheduler.services.cluster.shadow import shadow_choose, shadow_end, shadow_row
from scheduler.whatif.shadow import ShadowPlanner, rounds_plan, scoring_begin
from tests.support.rows.factories import AT, job_make, queue_make, round_make, server_make, user_make

pytestmark = pytest.mark.django_db


def chosen(**changes: Any) -> Shadow:
    """Return a shadow that an admin has chosen."""
    return shadow_choose(
        actor=user_make(admin=True),
        changes=changes or {"policy": "srtf"},
        expected_version=shadow_row().version,
        at=AT,
        reason="to compare",
    )


def test_snapshot_comes_back_as_it_was() -> None:
    """Every column, so that both configurations decide on the same."""
    server_make(gpus=4)
    job_make(state=JobState.RUNNING)
    job_make()
    live = snapshot_read(cluster_row(), at=AT)

    back = snapshot_unpack(snapshot_pack(live.tables))

    for name in ("jobs", "servers", "queues", "held", "releasing"):
        before, after = getattr(live.tables, name), getattr(back, name)
        for column in before.__dataclass_fields__:
            np.testing.assert_array_equal(getattr(after, column), getattr(before, column), err_msg=column)
    assert back.now_s == live.tables.now_s


def test_round_is_planned_again_and_nothing_happens() -> None:
    """One device, two jobs: the live policy lets the first one run, the shadow the urgent one."""
    queue = queue_make()
    server_make(gpus=1)
    first = job_make(queue)
    urgent = job_make(queue, priority=90)
    live = snapshot_read(cluster_row(), at=AT)
    seat = {"server": 1, "gpus": 1, "cpus": 1.0, "memory_bytes": 1}
    round_make(5, decisions={"grants": [{"job": first.number, "state": "launched", "seats": [seat]}]})
    shadow = chosen(policy="priority")
    shadow_offer(live.tables, number=5, at=AT)

    assert rounds_plan(shadow, at=AT) == 1

    row = ShadowRound.objects.get()
    assert (row.num_only_live, row.num_only_shadow, row.num_same) == (1, 1, 0)
    assert row.differences["only_live"] == [[first.number, 1]]
    assert row.differences["only_shadow"] == [[urgent.number, 1]]
    assert row.snapshot is None
    assert not Lease.objects.exists()
    assert set(Job.objects.values_list("state", flat=True)) == {"queued"}


def test_same_configuration_finds_no_difference() -> None:
    """The same snapshot and settings give the same plan."""
    queue = queue_make()
    server_make(gpus=1)
    job_make(queue)
    live = snapshot_read(cluster_row(), at=AT)
    number = Job.objects.get().number
    seat = {"server": 1, "gpus": 1, "cpus": 1.0, "memory_bytes": 1}
    round_make(1, decisions={"grants": [{"job": number, "state": "launched", "seats": [seat]}]})
    round_make(2, decisions={"same_as": 1})
    shadow = chosen(policy="fifo")
    shadow_offer(live.tables, number=2, at=AT)
    rounds_plan(shadow, at=AT)

    row = ShadowRound.objects.get()
    assert (row.num_same, row.num_only_live, row.num_only_shadow, row.num_other_gpus) == (1, 0, 0, 0)


def test_rounds_are_left_out_when_the_worker_is_behind_or_nothing_is_chosen() -> None:
    """Handing over costs the scheduler a bounded amount, whatever becomes of the worker."""
    server_make()
    live = snapshot_read(cluster_row(), at=AT)
    shadow_offer(live.tables, number=1, at=AT)
    assert not ShadowRound.objects.exists()
    chosen()
    for number in range(2, 20):
        shadow_offer(live.tables, number=number, at=AT)

    assert ShadowRound.objects.count() == MOST_WAITING


def test_round_of_an_earlier_shadow_is_not_planned() -> None:
    """Its difference would be counted for another configuration."""
    server_make()
    live = snapshot_read(cluster_row(), at=AT)
    chosen()
    shadow_offer(live.tables, number=1, at=AT)
    shadow = chosen(policy="fifo")

    assert rounds_plan(shadow, at=AT) == 0
    assert not ShadowRound.objects.exists()


def test_shadow_keeps_its_own_whole_configuration() -> None:
    """What the admin changes of the live settings later does not change it; what is left out is as it was."""
    shadow = chosen(policy="srtf")
    cluster = cluster_row()
    settings_change(
        actor=user_make(admin=True),
        changes={"mechanism": "proportional"},
        expected_version=cluster.settings_version,
        at=AT,
        reason="try it",
    )

    assert Shadow.objects.get().chosen["mechanism"] == "tune"
    assert shadow.chosen["policy"] == "srtf"
    assert Event.objects.filter(kind="settings").get().data["reason"] == "try it"
    assert Event.objects.filter(kind="shadow").get().data["after"]["policy"] == "srtf"


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"policy": "magic"}, "/policy"), ({"paused": True}, "/paused"), ({"policy": "las"}, "/policy")],
)
def test_wrong_shadow_is_refused(changes: dict[str, Any], field: str) -> None:
    """An unknown name, a part that is none, and what decides already."""
    with pytest.raises(SpecInvalid) as caught:
        chosen(**changes)

    assert caught.value.errors[0].pointer == field
    assert not Shadow.objects.filter(since__isnull=False).exists()


def test_two_admins_and_a_stranger() -> None:
    """Who saw an older shadow is told so; who is no admin may not at all."""
    shadow = chosen()
    with pytest.raises(Conflict):
        shadow_end(actor=user_make(admin=True), expected_version=shadow.version - 1, at=AT, reason="seen enough")
    with pytest.raises(NotAllowed):
        shadow_end(actor=user_make(), expected_version=shadow.version, at=AT, reason="seen enough")
    ended = shadow_end(actor=user_make(admin=True), expected_version=shadow.version, at=AT, reason="seen enough")

    assert ended.since is None
    assert ended.chosen == {}


@pytest.mark.usefixtures("processes")
def test_both_are_replayed_on_what_has_ended(settings: Any, tmp_path: Any) -> None:
    """One device: short jobs first finish sooner on average than in order of arrival; both sides are simulated."""
    settings.VAR_DIR = tmp_path
    queue, now = queue_make(), timezone.now()
    server = server_make(gpus=1, last_report_at=now)
    cluster = cluster_row()
    cluster.policy = "fifo"
    cluster.save()
    begun = now - timedelta(hours=3)
    for place, run_s in enumerate((3_600, 1_800, 60, 60, 60)):
        job = job_make(queue, state=JobState.COMPLETED, server=server, at=begun + timedelta(seconds=place), step_s=1)
        Job.objects.filter(pk=job.pk).update(executed_s=run_s, ended_at=now - timedelta(minutes=5))
    shadow = chosen(policy="srtf")
    Shadow.objects.update(since=begun - timedelta(minutes=1))
    shadow.refresh_from_db()
    scoring = scoring_begin(shadow, at=now)
    assert scoring is not None
    until_s = time.monotonic() + 600
    while not scoring.step() and time.monotonic() < until_s:
        time.sleep(0.05)

    score = ShadowScore.objects.get()
    assert score.num_jobs == 5
    assert score.shadow["avg_jct_s"] < score.live["avg_jct_s"]
    assert list((tmp_path / "simulations").iterdir()) == []


def test_planner_does_nothing_without_a_shadow() -> None:
    """And drops what was handed over before it ended."""
    from agents.protocol.clock import SystemClock

    ShadowRound.objects.create(number=1, version=1, at=AT, snapshot=b"x")
    ShadowPlanner(type("P", (), {"clock": SystemClock()})()).tick()

    assert not ShadowRound.objects.exists()
