"""The cluster at a glance: GPUs add up, shares add up, and times and fairness follow from the rows."""

from collections.abc import Mapping
from datetime import timedelta

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from pytest_django import DjangoAssertNumQueries

from scheduler.core.model.errors import NotFound
from scheduler.core.model.lifecycle import JobState
from scheduler.live.reports.telemetry import cluster_values, queue_values
from scheduler.models import Cluster, Event, Gpu, Queue
from scheduler.models.queue import Role
from scheduler.models.server import ServerState
from scheduler.selectors.cluster.overview import (
    cluster_now,
    cluster_series,
    fairness,
    feed,
    gpu_map,
    jct_summary,
    queue_shares,
)
from scheduler.selectors.cluster.rounds import round_detail, round_list, round_row
from scheduler.selectors.cluster.servers import server_detail, server_list
from scheduler.selectors.jobs.queue_line import queue_line
from scheduler.selectors.queues.tree import queue_detail, queue_list
from scheduler.selectors.search import search
from scheduler.selectors.wall import wall_line
from tests.support.rows.factories import (
    AT,
    job_make,
    member_make,
    queue_make,
    round_make,
    sample_make,
    server_make,
    user_make,
)

pytestmark = pytest.mark.django_db

FRAME_KEYS = {
    *("at", "round", "round_finished_at", "next_round_at", "policy", "locality", "mechanism", "num_gpus", "busy_gpus"),
    *("allocated_gpus", "free_gpus", "broken_gpus", "waiting_jobs", "running_jobs", "servers"),
}
MEASURED = ("utilization_frac", "used_memory_bytes", "temperature_c")


@pytest.fixture
def admin() -> User:
    """An admin."""
    return user_make("admin", admin=True)


def counts(frame: Mapping[str, object]) -> dict[str, object]:
    """Return the numbers of GPUs."""
    return {key: value for key, value in frame.items() if key.endswith("_gpus")}


def test_every_gpu_is_allocated_free_drained_or_broken() -> None:
    """The parts sum to the whole; GPUs of a lost server cannot be used, busy ones are used by 5 % or more."""
    server = server_make(gpus=4, broken=[3])
    server_make(gpus=2, state=ServerState.LOST)
    server_make(gpus=3, broken=[0], state=ServerState.DRAINING)
    job_make(state=JobState.RUNNING, num_gpus=2, server=server)
    Gpu.objects.filter(server=server, index=0).update(utilization_frac=0.9)
    Gpu.objects.filter(server=server, index=1).update(utilization_frac=0.04)

    # Of the two that are held and the one that is free; those that are drained or broken have to be idle.
    assert cluster_now(AT)["mean_utilization_frac"] == pytest.approx(0.94 / 3)
    assert counts(cluster_now(AT)) == {
        "num_gpus": 9,
        "busy_gpus": 1,
        "unknown_gpus": 0,
        "allocated_gpus": 2,
        "free_gpus": 1,
        "usable_gpus": 3,
        "drained_gpus": 2,
        "broken_gpus": 4,
    }


def test_what_a_late_report_said_is_not_known(admin: User) -> None:
    """The GPUs of a server that is silent are neither busy nor idle, and its last measures are no measures of now."""
    late, fresh = server_make("late", gpus=3, last_report_at=AT - timedelta(seconds=80)), server_make("fresh", gpus=1)
    for server, gpus in ((late, 2), (fresh, 1)):
        job_make(state=JobState.RUNNING, num_gpus=gpus, server=server)
        Gpu.objects.filter(server=server).update(utilization_frac=0.5, temperature_c=60.0, used_memory_bytes=1)

    frame = cluster_now(AT)
    rows = server_list(admin, AT)

    assert (frame["allocated_gpus"], frame["busy_gpus"], frame["unknown_gpus"]) == (3, 1, 2)
    assert [server["silent_s"] for server in frame["servers"]] == [80, None]
    assert [[gpu["utilization_frac"] for gpu in server["gpus"]] for server in frame["servers"]] == [[None] * 3, [0.5]]
    assert [row["silent_s"] for row in rows] == [80, None]
    assert {gpu.get(name) for gpu in rows[0]["gpus"] for name in MEASURED} == {None}
    assert rows[1]["gpus"][0]["utilization_frac"] == 0.5
    assert server_detail(admin, "late", AT)["silent_s"] == 80
    assert cluster_values(AT) == {**cluster_values(AT), "unknown_gpus": 2, "busy_gpus": 1, "used_gpus": 0.5}


def test_a_report_is_late_after_a_third_of_a_lease(settings: LazySettings) -> None:
    """Reports come each second; one that is missing says nothing."""
    settings.LEASE_TTL_S = 30
    for name, age_s in (("on time", 9), ("late", 11)):
        server_make(name, last_report_at=AT - timedelta(seconds=age_s))

    assert [server["silent_s"] for server in cluster_now(AT)["servers"]] == [None, 11]


def test_a_server_that_joins_counts_when_it_has() -> None:
    """The first seconds of a cluster are no loss of all it has."""
    server_make("new", gpus=2, state=ServerState.JOINING)

    frame = cluster_now()

    assert (frame["num_gpus"], frame["broken_gpus"]) == (0, 0)
    assert len(frame["servers"][0]["gpus"]) == 2


def test_frame_tells_the_round_and_the_servers(settings: LazySettings) -> None:
    """The frame is exactly what live pages expect, and the next round is one period after the last."""
    settings.ROUND_S = 10
    server = server_make("gpu-01", gpus=1)
    job_make()
    Cluster.objects.filter(pk=1).update(round_number=7, round_finished_at=AT)
    frame = cluster_now(AT)

    assert frame.keys() >= FRAME_KEYS
    assert (frame["round"], frame["next_round_at"]) == (7, "2026-03-07T14:32:10Z")
    assert (frame["waiting_jobs"], frame["running_jobs"]) == (1, 0)
    assert frame["servers"] == [
        {
            "id": server.pk,
            "name": "gpu-01",
            "state": "up",
            "device_kind": "cpu_slot",
            "simulated": False,
            "silent_s": None,
            "gpus": [{"index": 0, "healthy": True, "allocated": False, "utilization_frac": 0.0}],
        }
    ]


def test_paused_scheduler_has_no_next_round() -> None:
    """Nobody waits for a round that does not come."""
    Cluster.objects.filter(pk=1).update(round_number=7, round_finished_at=AT, paused=True)

    assert (cluster_now(AT)["next_round_at"], cluster_now(AT)["paused"]) == (None, True)


def test_frame_costs_five_queries(django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """It is made every second, however many servers and jobs there are."""
    for _ in range(5):
        job_make(state=JobState.RUNNING, server=server_make(gpus=8))
    with django_assert_num_queries(5):
        cluster_now(AT)


def test_overview_of_an_empty_cluster_is_empty(admin: User) -> None:
    """Before anything exists every read has an answer."""
    Cluster.objects.all().delete()

    assert counts(cluster_now(AT)) == dict.fromkeys(counts(cluster_now(AT)), 0)
    assert (cluster_now(AT)["round_finished_at"], cluster_now(AT)["next_round_at"]) == (None, None)
    assert [queue_shares(admin), gpu_map(admin), feed(admin, 10), queue_list(admin)] == [[], [], [], []]
    assert jct_summary(admin, AT)["p50_s"] is None
    assert fairness(admin, AT) == {"jobs": [], "jain_index": None, "is_cut": False}
    assert cluster_series(AT, AT + timedelta(hours=1), 10)["at"] == []


def test_series_average_over_buckets() -> None:
    """A bucket is the mean over the time that was measured in it, whatever the resolution."""
    start = AT
    for second, busy in ((0, 2), (1, 4), (10, 6)):
        sample_make("cluster", 1, start + timedelta(seconds=second), busy_gpus=busy, num_gpus=8)
    sample_make("cluster", 1, start + timedelta(seconds=11), resolution_s=9, busy_gpus=1, num_gpus=8)
    series = cluster_series(start, start + timedelta(seconds=20), 2)

    assert series["at"] == ["2026-03-07T14:32:00.000Z", "2026-03-07T14:32:10.000Z"]
    assert series["busy_gpus"] == [3.0, 1.5]
    assert series["num_gpus"] == [8.0, 8.0]
    assert series["waiting_jobs"] == [None, None]


def test_shares_are_leaves_and_the_rest_is_one_row(admin: User) -> None:
    """What a queue holds above its quota is borrowed; queues of others are summed up without names."""
    root = queue_make("lab", quota_gpus=8)
    vision, speech = queue_make("vision", parent=root, quota_gpus=2), queue_make("speech", parent=root, quota_gpus=6)
    server = server_make(gpus=8)
    job_make(vision, state=JobState.RUNNING, num_gpus=3, server=server)
    job_make(speech, state=JobState.RUNNING, num_gpus=1, server=server)
    job_make(speech)
    rows = queue_shares(member_make(vision))

    assert rows == [
        {
            "id": vision.pk,
            "name": "vision",
            "color_slot": vision.color_slot,
            "held_gpus": 3,
            "quota_gpus": 2,
            "borrowed_gpus": 1,
            "waiting_jobs": 0,
            "running_jobs": 1,
        },
        {
            "id": None,
            "name": "other queues",
            "color_slot": 0,
            "held_gpus": 1,
            "quota_gpus": 6,
            "borrowed_gpus": 0,
            "waiting_jobs": 1,
            "running_jobs": 1,
        },
    ]
    assert [row["name"] for row in queue_shares(admin)] == ["speech", "vision"]


def test_map_names_holders_to_those_who_may_know(admin: User) -> None:
    """Each GPU says whether it is free, broken or held, and by whom if the reader sees the queue."""
    vision = queue_make("vision")
    server = server_make("gpu-01", gpus=3, broken=[2])
    job = job_make(vision, state=JobState.RUNNING, server=server, name="resnet")
    seen = gpu_map(admin)[0]["gpus"]
    hidden = gpu_map(member_make(queue_make("speech")))[0]["gpus"]

    holder = seen[0]["job"]

    assert holder is not None
    assert (holder["number"], seen[0]["queue"], seen[0]["color_slot"]) == (
        job.number,
        "vision",
        vision.color_slot,
    )
    assert (hidden[0]["job"], hidden[0]["queue"], hidden[0]["color_slot"]) == (None, "another queue", 0)
    assert [gpu["allocated"] for gpu in seen] == [gpu["allocated"] for gpu in hidden] == [True, False, False]
    assert (seen[2]["healthy"], seen[2]["health_reason"]) == (False, "fell off the bus")
    assert (seen[1]["job"], seen[1]["queue"]) == (None, None)


def test_map_costs_the_same_for_any_number_of_servers(
    admin: User, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """Servers, GPUs and holders are one query each."""
    for _ in range(6):
        job_make(state=JobState.RUNNING, server=server_make(gpus=4))
    with django_assert_num_queries(3):
        server_list(admin)


def test_server_is_found_by_id_and_name(admin: User) -> None:
    """One server with what is given of it."""
    server = server_make("gpu-01", gpus=4)
    job_make(state=JobState.RUNNING, num_gpus=2, server=server)
    row = server_detail(admin, "gpu-01")

    assert row == server_detail(admin, server.pk)
    assert (row["num_gpus"], row["allocated_gpus"], row["allocated_cpus"]) == (4, 2, 2.0)
    assert "key_hex" not in row
    with pytest.raises(NotFound):
        server_detail(admin, "gpu-02")


def test_completion_times_are_sorted_with_their_quantiles(admin: User) -> None:
    """From submission to completion; jobs that failed, or completed before, do not count."""
    queue = queue_make()
    for seconds in (30.0, 10.0, 20.0):
        job_make(queue, state=JobState.COMPLETED, step_s=seconds)
    job_make(queue, state=JobState.FAILED)
    job_make(queue, state=JobState.COMPLETED, at=AT - timedelta(days=2))
    summary = jct_summary(admin, AT)

    assert summary["jct_s"] == [30.0, 60.0, 90.0]
    assert summary["wait_s"] == [10.0, 20.0, 30.0]
    assert (summary["count"], summary["mean_s"], summary["p50_s"], summary["p90_s"]) == (3, 60.0, 60.0, 90.0)
    assert (summary["wait_p50_s"], summary["wait_p90_s"]) == (20.0, 30.0)


def test_feed_is_the_newest_visible_news(admin: User) -> None:
    """Newest first, at most so many, without every new reason to wait."""
    vision = queue_make("vision")
    job_make(vision, state=JobState.COMPLETED)
    Event.objects.create(at=AT, kind="job_wait", actor="scheduler", queue=vision, reason="no_capacity")
    rows = feed(member_make(vision), 2)

    assert [row["new_state"] for row in rows] == ["completed", "running"]


def test_queues_are_a_tree_with_sums(admin: User) -> None:
    """Parents come before children and count what is below them."""
    root = queue_make("lab", quota_gpus=8)
    vision = queue_make("vision", parent=root, quota_gpus=2)
    queue_make("speech", parent=root, quota_gpus=4)
    job_make(vision, state=JobState.RUNNING, num_gpus=3, server=server_make(gpus=4))
    job_make(vision)
    rows = {row["name"]: row for row in queue_list(admin)}

    assert list(rows) == ["lab", "speech", "vision"]
    assert [row["depth"] for row in rows.values()] == [0, 1, 1]
    assert (rows["lab"]["held_gpus"], rows["lab"]["waiting_jobs"], rows["lab"]["running_jobs"]) == (3, 1, 1)
    assert (rows["vision"]["held_gpus"], rows["vision"]["borrowed_gpus"], rows["vision"]["parent"]) == (3, 1, "lab")
    assert (rows["lab"]["is_leaf"], rows["vision"]["is_leaf"]) == (False, True)


def test_parked_jobs_wait_in_every_count(admin: User) -> None:
    """Between its turns a job waits for the next one: cluster, queues, live frames, samples and line say the same."""
    vision = queue_make("vision")
    member = member_make(vision, name="mia")
    server = server_make(gpus=4)
    for state in (JobState.QUEUED, JobState.PARKED, JobState.RUNNING):
        job_make(vision, state=state, server=server, owner=member)
    frame, share, row = cluster_now(), queue_shares(admin)[0], queue_list(admin)[0]
    person = search(admin, "mia", AT)["people"][0]
    counts = [
        (one["waiting_jobs"], one["running_jobs"]) for one in (frame, share, row, queue_values()[vision.pk], person)
    ]
    line = queue_line(admin, vision, most=10)

    assert counts == [(2, 1)] * 5
    assert [job["state"] for job in line["jobs"]] == ["queued", "parked"]
    assert wall_line(admin, AT, most=5)["jobs"] == 2


def test_rights_are_in_the_row(admin: User) -> None:
    """Pages show what the reader may do; a parent that is not visible has no name."""
    root = queue_make("lab", quota_gpus=8)
    vision = queue_make("vision", parent=root)
    row = queue_detail(member_make(vision, Role.LEAD, name="lead"), vision)

    assert (row["role"], row["may_submit"], row["may_change_members"], row["may_change_quota"]) == (
        "lead",
        True,
        True,
        False,
    )
    assert (row["parent"], row["members"], row["inherited_members"]) == (
        None,
        [{"username": "lead", "role": "lead"}],
        [],
    )
    member_make(root, Role.MEMBER, name="above")
    assert queue_detail(admin, vision)["inherited_members"] == [{"username": "above", "role": "member", "queue": "lab"}]


def test_queue_list_costs_the_same_for_any_number_of_queues(
    admin: User, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    """A fixed number of queries."""
    for index in range(10):
        queue_make(f"q{index}")
    with django_assert_max_num_queries(4):
        queue_list(admin)


def test_rounds_are_listed_without_their_decisions(
    admin: User, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """A list of rounds stays small."""
    for number in (1, 2, 3):
        round_make(number, decisions={"grants": [{"job": 1}]})
    with django_assert_num_queries(1) as captured:
        rows = [round_row(round_) for round_ in round_list(admin)[:2]]

    assert [row["number"] for row in rows] == [3, 2]
    assert "decisions" not in captured.captured_queries[0]["sql"]


def test_round_names_jobs_and_servers(admin: User) -> None:
    """Numbers become names; equal decisions are read from the round that took them first."""
    server = server_make("gpu-01")
    job, other = job_make(queue_make("vision"), name="resnet"), job_make(queue_make("nlp"), name="t5")
    decisions = {
        "grants": [{"job": job.number, "state": "launched", "seats": [{"server": server.number, "gpus": 1}]}],
        "preemptions": [{"job": other.number, "rule": "policy_order", "by_job": job.number, "evidence": {"a": 1}}],
        "waiting": [
            {"job": other.number, "position": 1, "reason": "queue_max", "evidence": {"queue_id": other.queue_id}}
        ],
        "waiting_by_reason": {"queue_max": 1},
    }
    round_make(1, decisions=decisions)
    round_make(2, decisions={"same_as": 1})
    told = round_detail(admin, 2)
    granted, taker = told["grants"][0]["job"], told["preemptions"][0]["by_job"]

    assert (told["number"], told["same_as"]) == (2, 1)
    assert granted is not None
    assert granted["name"] == "resnet"
    assert told["grants"][0]["seats"] == [{"server": "gpu-01", "gpus": 1}]
    assert taker is not None
    assert taker["name"] == "resnet"
    assert told["waiting"][0]["evidence"] == {"queue": "nlp"}
    assert not told["is_shortened"]


def test_round_with_very_many_decisions_is_shortened(
    admin: User, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    """A page shows the first 500 of each kind and says so."""
    entries = [{"job": number, "position": number, "reason": "new", "evidence": {}} for number in range(1, 2001)]
    round_make(1, decisions={"waiting": entries})
    with django_assert_max_num_queries(5):
        told = round_detail(admin, 1)

    assert (len(told["waiting"]), told["is_shortened"]) == (500, True)


@pytest.mark.parametrize("number", [0, 7, -1, 2**70])
def test_round_that_never_was_is_not_found(admin: User, number: int) -> None:
    """Any number may stand in a URL."""
    with pytest.raises(NotFound):
        round_detail(admin, number)


def test_queue_that_is_not_visible_is_not_found() -> None:
    """A stranger gets no detail."""
    queue: Queue = queue_make("vision")
    with pytest.raises(NotFound):
        queue_detail(user_make(), queue)
