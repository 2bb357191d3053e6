"""Reads of jobs: lists, rows, why one waits, and what happened to it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.conf import LazySettings
from django.contrib.auth.models import User
from django.db import connection
from django.test.utils import CaptureQueriesContext
from pytest_django import DjangoAssertNumQueries

from scheduler.core.model.lifecycle import JobState
from scheduler.core.model.plan import WaitReason
from scheduler.models import Attempt, Cluster, Event, Job, Queue, Sample
from scheduler.models.queue import Role
from scheduler.selectors.jobs.listing import (
    ORDERINGS,
    JobFilters,
    event_row,
    job_detail,
    job_events,
    job_explain,
    job_list,
    job_row,
    job_series,
    job_timeline,
)
from scheduler.selectors.visibility import require_job
from scheduler.services.jobs.cancel_suspend_resume import job_cancel, job_suspend
from scheduler.services.jobs.state import Wait, job_waits_record
from tests.support.rows.factories import (
    AT,
    attempt_make,
    job_make,
    job_move,
    member_make,
    queue_make,
    sample_make,
    server_make,
    user_make,
)

pytestmark = pytest.mark.django_db

ROW_KEYS = {
    *("id", "number", "name", "queue", "owner", "state", "num_gpus", "step", "total_steps", "loss", "steps_per_s"),
    *("wait_reason", "wait_sentence", "wait_position", "state_changed_at"),
}


@pytest.fixture
def vision() -> Queue:
    """A queue with a quota of 4."""
    return queue_make("vision", quota_gpus=4)


@pytest.fixture
def lead(vision: Queue) -> User:
    """Its lead."""
    return member_make(vision, Role.LEAD, name="lead")


def after(seconds: float) -> datetime:
    """Return a moment after the first submission."""
    return AT + timedelta(seconds=seconds)


def names(user: User, **filters: Any) -> list[str]:
    """Return the names of the listed jobs in order."""
    return [job.name for job in job_list(user, JobFilters(**filters))]


def fill(queue: Queue, owner: User, count: int) -> None:
    """Add jobs in several states."""
    states = [JobState.QUEUED, JobState.RUNNING, JobState.COMPLETED]
    for index in range(count):
        job_make(queue, owner=owner, state=states[index % 3], name=f"job-{index}")


def test_list_is_narrowed_by_each_filter(vision: Queue, lead: User) -> None:
    """Every filter narrows, together they narrow further, and the newest come first."""
    below = queue_make("vision/detection", parent=vision)
    ada = user_make("ada")
    job_make(vision, owner=lead, name="small")
    job_make(below, owner=ada, name="detr", num_gpus=2, state=JobState.RUNNING, at=after(60))
    job_make(queue_make("speech"), owner=ada, name="asr")

    assert names(lead) == ["detr", "small"]
    assert names(lead, states=(JobState.RUNNING, JobState.FAILED)) == ["detr"]
    assert names(lead, queue="vision") == ["detr", "small"]
    assert names(lead, queue="vision/detection") == ["detr"]
    assert names(lead, queue="speech") == names(lead, queue="nowhere") == []
    assert names(lead, owner="ada") == ["detr"]
    assert names(lead, search="DET") == ["detr"]
    assert names(lead, submitted_after=after(60)) == ["detr"]
    assert names(lead, submitted_before=after(60)) == ["small"]
    assert names(lead, min_gpus=2) == ["detr"]
    assert names(lead, max_gpus=1, queue="vision") == ["small"]


def test_search_finds_numbers_and_parts_of_names(vision: Queue, lead: User) -> None:
    """A job is found as people write it."""
    job = job_make(vision, owner=lead, name="resnet-1")

    for text in (str(job.number), f"J-{job.number}", f"j-{job.number}", "SNET", " resnet "):
        assert names(lead, search=text) == ["resnet-1"], text
    for text in ("%", "_", "\x00x", "J-", "9" * 40):
        assert names(lead, search=text) == [], text


@pytest.mark.parametrize("ordering", [sign + name for name in ORDERINGS for sign in ("", "-")])
def test_every_ordering_is_total_and_uses_an_index(vision: Queue, lead: User, ordering: str) -> None:
    """A page of any ordering is read from an index, not by sorting all jobs."""
    fill(vision, lead, 4)
    jobs = job_list(user_make(admin=True), JobFilters(ordering=ordering))

    assert connection.vendor != "sqlite" or "TEMP B-TREE" not in jobs[:50].explain()
    assert len(jobs) == 4


def test_unknown_ordering_is_a_defect_of_the_caller(lead: User) -> None:
    """What clients may ask for is checked before."""
    with pytest.raises(ValueError, match="spec"):
        job_list(lead, JobFilters(ordering="spec"))


def test_list_costs_the_same_for_any_number_of_jobs(
    vision: Queue, lead: User, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    """Two queries for the roles, one for the rows with queue and owner; the specs stay where they are."""
    fill(vision, lead, 12)
    with django_assert_num_queries(3) as captured:
        rows = [job_row(job) for job in job_list(lead, JobFilters())[:50]]

    assert len(rows) == 12
    assert '"spec"' not in captured.captured_queries[-1]["sql"]


def test_row_has_what_pages_and_frames_read(vision: Queue, lead: User) -> None:
    """A row is plain JSON data with a sentence for whoever waits."""
    row = job_row(job_make(vision, owner=lead, step=7, loss=0.5))

    assert row.keys() >= ROW_KEYS
    assert (row["queue"], row["owner"], row["state"], row["step"]) == ("vision", "lead", "queued", 7)
    assert row["wait_sentence"] == "The next round decides about it."
    assert row["state_changed_at"] == "2026-03-07T14:32:00Z"


@pytest.mark.parametrize("reason", list(WaitReason))
def test_no_waiting_job_is_without_a_sentence(vision: Queue, lead: User, reason: WaitReason) -> None:
    """Whatever the reason, there is a sentence, also without its numbers."""
    job = job_make(vision, owner=lead, wait_reason=reason)

    assert job_row(job)["wait_sentence"].endswith(".")
    assert job_explain(lead, job, AT)["sentence"]


def test_detail_has_spec_checkpoint_and_newest_attempt(vision: Queue, lead: User) -> None:
    """One job in full, by a fixed number of queries."""
    server = server_make("gpu-01")
    job = job_make(vision, owner=lead, state=JobState.RUNNING, num_gpus=2, server=server)
    attempt = Attempt.objects.get(job=job)
    Job.objects.filter(pk=job.pk).update(
        checkpoint_attempt=attempt, checkpoint_name="step-000120.pt", checkpoint_step=120, checkpoint_at=after(90)
    )
    with CaptureQueriesContext(connection) as captured:
        detail = job_detail(lead, require_job(lead, job.pk))

    assert detail["spec"] == job.spec
    assert detail["checkpoint"] == {
        "attempt": 1,
        "name": "step-000120.pt",
        "step": 120,
        "at": "2026-03-07T14:33:30Z",
    }
    assert detail["attempt"] is not None
    assert detail["attempt"]["servers"] == [
        {"server_id": server.pk, "server": "gpu-01", "gpus": [0, 1], "cpus": 2.0, "memory_bytes": 2 * 2**30}
    ]
    assert len(captured) <= 16


def test_detail_says_what_the_reader_may_do(vision: Queue, lead: User) -> None:
    """Buttons follow the role and the state."""
    viewer = member_make(vision, Role.VIEWER)
    queued = job_make(vision, owner=lead)
    suspended = job_suspend(actor=lead, job=job_make(vision, owner=lead), at=AT)
    cancelled = job_cancel(actor=lead, job=job_make(vision, owner=lead, state=JobState.RUNNING), at=AT)

    assert job_detail(lead, queued)["actions"] == ["cancel", "suspend"]
    assert job_detail(lead, suspended)["actions"] == ["cancel", "resume"]
    assert job_detail(lead, cancelled)["actions"] == []
    assert job_detail(lead, job_make(vision, state=JobState.FAILED))["actions"] == []
    assert job_detail(viewer, queued)["actions"] == []


def test_explain_names_reason_line_and_checks(vision: Queue, lead: User) -> None:
    """A waiting job's page: the sentence, who is ahead, and each check with its numbers."""
    server = server_make(gpus=4, broken=[3])
    job_make(vision, owner=lead, state=JobState.RUNNING, num_gpus=2, server=server)
    ahead = job_make(vision, owner=lead, name="ahead", wait_position=1)
    job = job_make(vision, owner=lead, num_gpus=2)
    evidence = {"needed_gpus": 2, "free_gpus": 1, "largest_free_gpus": 1, "max_servers": 1}
    wait = Wait(job_id=job.pk, reason=WaitReason.FRAGMENTATION, evidence=evidence, position=2)  # type: ignore[arg-type]
    job_waits_record(waits=[wait], round_number=7, at=after(30))
    Cluster.objects.filter(pk=1).update(round_number=7, round_finished_at=after(30))
    told = job_explain(lead, require_job(lead, job.pk), after(33))

    assert (told["reason"], told["round"], told["since"]) == ("fragmentation", 7, "2026-03-07T14:32:30Z")
    assert told["sentence"] == "No server has 2 GPUs free. The largest free block is 1."
    assert (told["position"], told["waiting_jobs"], told["queue_position"], told["queue_waiting_jobs"]) == (2, 2, 2, 2)
    assert [(row["name"], row["number"], row["queue"]) for row in told["ahead"]] == [("ahead", ahead.number, "vision")]
    assert [(check["name"], check["ok"], check["text"]) for check in told["checks"]] == [
        ("Scheduler", True, "round 7"),
        ("Quota of vision", True, "2 + 2 of 4"),
        ("Jobs that it waits for", True, "no other job"),
        ("GPUs in the cluster", False, "needs 2, 1 free"),
        ("GPUs on one server", False, "needs 2, largest is 1"),
        ("CPU and memory", True, "as its profile says"),
    ]


def test_explain_counts_the_servers_that_a_gang_may_have(vision: Queue, lead: User) -> None:
    """Two servers with two free GPUs each have room for a gang of four that may be on two."""
    for _ in range(2):
        server_make(gpus=2)
    job = job_make(vision, owner=lead, num_gpus=4)
    for most, check in ((1, ("one server", False, "largest is 2")), (2, ("2 servers", True, "at most 4"))):
        job.spec["resources"]["max_servers"] = most
        job.save()
        found = job_explain(lead, require_job(lead, job.pk), AT)["checks"][4]
        assert (found["name"], found["ok"], found["text"]) == (f"GPUs on {check[0]}", check[1], f"needs 4, {check[2]}")


def test_explain_tells_borrowing_and_limits(vision: Queue, lead: User) -> None:
    """Quota and limit are shown with what the job would add to them."""
    Queue.objects.filter(pk=vision.pk).update(max_gpus=5)
    job_make(vision, owner=lead, state=JobState.RUNNING, num_gpus=3, server=server_make(gpus=8))
    job = require_job(lead, job_make(vision, owner=lead, num_gpus=3).pk)
    checks = {check["name"]: check for check in job_explain(lead, job, AT)["checks"]}

    assert checks["Quota of vision"]["text"] == "3 + 3 of 4, borrows 2"
    assert checks["Limit of vision"] == {"name": "Limit of vision", "ok": False, "text": "3 + 3 of at most 5"}


def test_explain_notices_a_scheduler_that_stands_still(vision: Queue, lead: User, settings: LazySettings) -> None:
    """The reason of an old round is not shown as if it still held."""
    settings.ROUND_S = 10
    job = job_make(vision, owner=lead, wait_reason=WaitReason.NO_CAPACITY)
    Cluster.objects.filter(pk=1).update(round_number=7, round_finished_at=AT)
    fresh, stale = job_explain(lead, job, after(30)), job_explain(lead, job, after(36))

    assert fresh["reason"] == "no_capacity"
    assert stale["reason"] == "scheduler_stale"
    assert stale["sentence"].startswith("The scheduler has not finished a round since 14:32 UTC.")
    assert stale["checks"][0] == {"name": "Scheduler", "ok": False, "text": "no round since 14:32 UTC"}


def test_explain_shows_a_pause_after_a_failure(vision: Queue, lead: User) -> None:
    """A job in back-off says when it is tried again."""
    job = job_make(vision, owner=lead, wait_reason=WaitReason.BACKOFF, retry_after=after(600))
    told = job_explain(lead, job, AT)

    assert told["checks"][-1] == {"name": "Pause after a failure", "ok": False, "text": "tried again at 14:42 UTC"}
    assert "14:42 UTC" in told["sentence"]


@pytest.mark.parametrize("state", [state for state in JobState if state != JobState.QUEUED])
def test_job_that_does_not_wait_has_no_checks(vision: Queue, lead: User, state: JobState) -> None:
    """Nothing is explained away; a suspended job says that it is held."""
    told = job_explain(lead, job_make(vision, owner=lead, state=state), after(600))

    assert told["reason"] == ("held" if state == JobState.SUSPENDED else "")
    assert told["sentence"]
    assert (told["checks"], told["ahead"], told["position"]) == ([], [], None)


def test_explain_costs_the_same_however_many_wait(
    vision: Queue, lead: User, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    """The nearest ten ahead are shown, with a fixed number of queries."""
    for position in range(1, 16):
        job_make(vision, owner=lead, wait_position=position, name=f"job-{position}")
    job = require_job(lead, job_make(vision, owner=lead, wait_position=16).pk)
    with django_assert_max_num_queries(20):
        told = job_explain(lead, job, AT)

    assert [row["position"] for row in told["ahead"]] == list(range(6, 16))
    assert told["num_ahead"] == 15


def test_timeline_alternates_waits_and_attempts(vision: Queue, lead: User) -> None:
    """Every moment since the submission is in one entry: what it waited for, where it ran, how that ended."""
    server = server_make("gpu-01")
    job = job_make(vision, owner=lead, state=JobState.RUNNING, server=server)
    job_move(job, JobState.QUEUED, at=after(300), reason="server_lost")
    wait = Wait(job_id=job.pk, reason=WaitReason.NO_SERVER, evidence={}, position=1)
    job_waits_record(waits=[wait], round_number=1, at=after(310))
    entries = job_timeline(job, after(400))

    assert [(entry["kind"], entry.get("reason"), entry["duration_s"]) for entry in entries] == [
        ("wait", "new", 60.0),
        ("attempt", None, 240.0),
        ("wait", "new", 10.0),
        ("wait", "no_server", 90.0),
    ]
    assert [entry["end"] for entry in entries][-1] is None
    assert entries[1]["kind"] == "attempt"
    assert (entries[1]["servers"][0]["server"], entries[1]["end_cause"]) == ("gpu-01", "preempted")


def test_timeline_shows_pauses(vision: Queue, lead: User) -> None:
    """A suspended time is no wait."""
    job = job_suspend(actor=lead, job=job_make(vision, owner=lead), at=after(60))

    assert [entry["kind"] for entry in job_timeline(job, after(90))] == ["wait", "suspended"]


def test_receipt_names_the_other_job_only_to_those_who_see_it(vision: Queue, lead: User) -> None:
    """A preemption says by whom, by which rule and what was lost; a stranger's job has no name."""
    theirs = job_make(queue_make("nlp"), name="t5-large")
    ours = job_make(vision, owner=lead, name="resnet")
    admin = user_make(admin=True)

    def receipt(by: Job, user: User | None) -> dict[str, Any]:
        job = job_make(vision, owner=lead, state=JobState.PREEMPTING)
        Attempt.objects.filter(job=job).update(
            preempted_by=by, preempt_rule="quota_reclaim", stop_requested_at=AT, lost_s=190.0
        )
        entry = next(entry for entry in job_timeline(job, AT, user) if entry["kind"] == "attempt")
        return dict(entry["receipt"] or {})

    seen, stranger = receipt(theirs, admin), receipt(theirs, lead)

    assert (seen["rule"], seen["lost_s"], seen["by_job"]["name"]) == ("quota_reclaim", 190.0, "t5-large")
    assert stranger["by_job"] == {"id": None, "number": None, "name": "another job", "queue": "another queue"}
    assert receipt(ours, None)["by_job"]["name"] == "resnet"


def test_attempts_cost_few_queries(
    vision: Queue, lead: User, django_assert_max_num_queries: DjangoAssertNumQueries
) -> None:
    """A job with many attempts is read as quickly as one with a single one."""
    server = server_make()
    job = job_make(vision, owner=lead, state=JobState.RUNNING, server=server)
    for n in range(1, 8):
        job_move(job, JobState.QUEUED, at=after(n * 100))
        attempt_make(job, server=server, at=after(n * 100 + 10))
        job_move(job, JobState.LAUNCHING, at=after(n * 100 + 10))
        job_move(job, JobState.RUNNING, at=after(n * 100 + 20))
    with django_assert_max_num_queries(8):
        entries = job_timeline(job, after(1000))

    assert sum(entry["kind"] == "attempt" for entry in entries) == 8


def test_events_are_rows_in_order(vision: Queue, lead: User, django_assert_num_queries: DjangoAssertNumQueries) -> None:
    """The history of a job, oldest first, by one query; who preempted it is in the receipt, not in the event."""
    job = job_make(vision, owner=lead, state=JobState.PREEMPTING)
    Event.objects.filter(job=job, new_state="preempting").update(data={"by_job": 99, "queue_held_gpus": 6})
    with django_assert_num_queries(1):
        rows = [event_row(event) for event in job_events(job)]

    assert [(row["number"], row["new_state"]) for row in rows] == [
        (1, "queued"),
        (2, "launching"),
        (3, "running"),
        (4, "preempting"),
    ]
    assert rows[-1]["data"] == {"queue_held_gpus": 6}
    assert (rows[0]["job_number"], rows[0]["queue"], rows[0]["actor"]) == (job.number, "vision", "lead")


def test_series_are_lists_of_one_length(vision: Queue, lead: User) -> None:
    """What was not measured is None; ``since`` gives only what is new."""
    job = job_make(vision, owner=lead)
    sample_make("job", job.pk, after(1), step=1, loss=2.0)
    sample_make("job", job.pk, after(2), step=2, cpu_frac=0.5)
    sample_make("job", "other", after(3), step=9)
    series = job_series(job)

    assert series["at"] == ["2026-03-07T14:32:01Z", "2026-03-07T14:32:02Z"]
    assert (series["step"], series["loss"], series["cpu_frac"]) == ([1, 2], [2.0, None], [None, 0.5])
    assert {len(values) for values in series.values()} == {2}
    assert job_series(job, after(1))["step"] == [2]


def test_long_series_are_thinned_and_end_with_the_newest(vision: Queue, lead: User) -> None:
    """A chart gets at most 2,000 points."""
    job = job_make(vision, owner=lead)
    Sample.objects.bulk_create(
        Sample(scope="job", scope_id=job.pk, at=after(n), values={"step": n}) for n in range(4500)
    )
    series = job_series(job)

    assert len(series["step"]) == 1500
    assert series["step"][-1] == 4499
    assert series["step"] == sorted(series["step"])


def test_times_are_utc_with_z(vision: Queue, lead: User) -> None:
    """Whatever zone a time had, JSON says it in one."""
    job = job_make(vision, owner=lead)
    Job.objects.filter(pk=job.pk).update(progress_at=datetime(2026, 3, 7, 14, 32, 5, 123456, tzinfo=UTC))

    assert job_detail(lead, require_job(lead, job.pk))["progress_at"] == "2026-03-07T14:32:05.123Z"
