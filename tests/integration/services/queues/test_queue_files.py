"""A shorter rule for files of ended jobs: what it removes is told first, by service, REST and page."""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job, Queue
from scheduler.models.queue import Role
from scheduler.selectors.queues.stored import rule_removes
from scheduler.services.queues.directories import Unconfirmed, queue_keep_directories
from scheduler.services.retention.remove import old_rows_remove
from tests.support.rows.factories import job_make, member_make, queue_make

pytestmark = pytest.mark.django_db
GIB = 2**30
WEEK = {"keep_directories_days": 7, "directories_most_bytes": None, "user_directories_most_bytes": None}


@pytest.fixture(autouse=True)
def _static(settings: Any, tmp_path: Path) -> None:
    """Static files as they lie in the tree; a shared directory."""
    settings.STATIC_ROOT = settings.SHARED_DIR = tmp_path
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }


@pytest.fixture
def now() -> datetime:
    """One moment; pages have their own clock, a little later."""
    return datetime.now(UTC)


@pytest.fixture
def queue() -> Queue:
    """A queue that keeps files for 30 days."""
    return queue_make("vision", quota_gpus=4)


def ended(queue: Queue, at: datetime, *, gib: int = 1, **columns: Any) -> Job:
    """Return a job that ended then and left files."""
    owner = columns.pop("owner", None) or member_make(queue)
    return job_make(queue, owner=owner, state=JobState.COMPLETED, at=at, directory_bytes=gib * GIB, **columns)


def test_days_count_what_goes_within_three_days(queue: Queue, now: datetime) -> None:
    """Jobs that go later, are kept by a date, or run are not counted; neither is what the present rule removes."""
    large, small = ended(queue, now - timedelta(days=20), gib=5), ended(queue, now - timedelta(days=10))
    ended(queue, now - timedelta(days=5))  # goes in two days
    ended(queue, now - timedelta(days=1))
    ended(queue, now - timedelta(days=29), keep_directory_until=now + timedelta(days=9))
    ended(queue, now - timedelta(days=28))  # its time is over anyway
    job_make(queue, owner=member_make(queue), state=JobState.RUNNING, directory_bytes=GIB)
    found = rule_removes(queue, WEEK, now)

    assert (found.num_jobs, found.now_jobs, found.num_bytes) == (3, 2, 7 * GIB)
    assert found.largest[:2] == ((large.number, 5 * GIB), (small.number, GIB))


@pytest.mark.parametrize("limit", ["directories_most_bytes", "user_directories_most_bytes"])
def test_limit_tells_what_the_sweep_removes(queue: Queue, now: datetime, limit: str) -> None:
    """The same jobs at once; those that ended lately go within three days."""
    owner = member_make(queue)
    for days in (9, 8, 2, 1):
        ended(queue, now - timedelta(days=days), owner=owner)
    rule: dict[str, int | None] = {limit: GIB}
    found = rule_removes(queue, rule, now)
    Queue.objects.filter(pk=queue.pk).update(**rule)
    gone = []
    for at in (now, now + timedelta(days=3)):
        old_rows_remove(at=at, go_on=lambda: True)
        gone.append(Job.objects.filter(directory_removal_at__isnull=False).count())

    assert [found.now_jobs, found.num_jobs] == gone == [2, 3]


def test_one_query_whatever_the_number_of_jobs(queue: Queue, now: datetime, django_assert_num_queries: Any) -> None:
    """And none for a rule that is not shorter."""
    owner = member_make(queue)
    for days in range(8, 20):
        ended(queue, now - timedelta(days=days), owner=owner)
    with django_assert_num_queries(1):
        assert rule_removes(queue, WEEK | {"user_directories_most_bytes": GIB}, now).num_jobs == 12
    with django_assert_num_queries(0):
        assert rule_removes(queue, {"keep_directories_days": 30, "directories_most_bytes": None}, now).num_jobs == 0


def test_change_waits_for_the_number_that_was_read(queue: Queue, now: datetime) -> None:
    """A smaller number is of an older look; a rule that removes nothing asks nothing."""
    lead = member_make(queue, Role.LEAD)
    asked: dict[str, Any] = {**WEEK, "actor": lead, "queue": queue, "reason": "disk is full", "at": now}
    for days in (9, 8):
        ended(queue, now - timedelta(days=days))
    for confirmed in (None, 1):
        with pytest.raises(
            Unconfirmed, match=r"files of 2 ended jobs for good, 2 GiB: within minutes\. The largest: J-"
        ):
            queue_keep_directories(**asked, expected_version=queue.version, confirmed_jobs=confirmed)
    changed = queue_keep_directories(**asked, expected_version=queue.version, confirmed_jobs=2)

    assert changed.keep_directories_days == 7
    longer = {**asked, "queue": changed, "keep_directories_days": 60}
    assert queue_keep_directories(**longer, expected_version=changed.version).keep_directories_days == 60


def test_rest_refuses_until_the_number_is_sent(client: Client, queue: Queue, now: datetime) -> None:
    """The error names the field and the figure."""
    ended(queue, now - timedelta(days=9))
    client.force_login(member_make(queue, Role.LEAD))
    body = {"keep_directories_days": 7, "reason": "disk is full"}

    def send(**more: int) -> Any:  # an answer of the test client
        return client.patch(
            "/api/v1/queues/vision/files", json.dumps(body | more), content_type="application/json", HTTP_IF_MATCH="*"
        )

    refused = send()
    assert refused.status_code == 400
    assert [(error["pointer"], error["code"]) for error in refused.json()["errors"]] == [
        ("/confirmed_jobs", "unconfirmed")
    ]
    assert "files of 1 ended job for good, 1 GiB" in refused.json()["errors"][0]["detail"]
    queue.refresh_from_db()
    assert queue.keep_directories_days == 30
    assert send(confirmed_jobs=1).status_code == 200


def test_page_asks_with_figures_then_saves(client: Client, queue: Queue, now: datetime) -> None:
    """The number that it asked about goes with the second press, and holds for the rule that was shown alone."""
    job = ended(queue, now - timedelta(days=9))
    ended(queue, now - timedelta(days=5))
    client.force_login(member_make(queue, Role.LEAD))
    form = {
        "do": "files",
        "files-keep_directories_days": 7,
        "files-reason": "disk is full",
        "files-version": queue.version,
    }
    asked = client.post("/queues/vision?tab=quota", form)
    page = asked.content.decode().replace("\N{NO-BREAK SPACE}", " ")

    assert asked.status_code == 422
    body = {"keep_directories_days": 7, "reason": "disk is full"}
    refused = client.patch("/api/v1/queues/vision/files", body, content_type="application/json", HTTP_IF_MATCH="*")
    said, _, _ = refused.json()["errors"][0]["detail"].partition(" The largest")
    assert said.endswith("files of 2 ended jobs for good, 2 GiB: 1 within minutes, the others within 3 days.")
    assert f"Nothing is saved yet. {said} The largest" in page
    assert f"J-{job.number}</a> (1 GiB)" in page
    assert "Save and delete files of 2 jobs" in page
    assert 'name="files-confirmed_jobs" value="2"' in page
    assert 'name="files-confirmed_rule" value="7 None None"' in page
    confirmed = form | {"files-confirmed_jobs": 2, "files-confirmed_rule": "7 None None"}
    shorter = client.post("/queues/vision?tab=quota", confirmed | {"files-keep_directories_days": 3})
    wrong = client.post("/queues/vision?tab=quota", confirmed | {"files-reason": ""})
    assert (shorter.status_code, wrong.status_code) == (422, 422)
    assert "files-confirmed_jobs" not in wrong.content.decode()  # its Save has asked nothing
    assert client.post("/queues/vision?tab=quota", confirmed).status_code == 302
    queue.refresh_from_db()
    assert queue.keep_directories_days == 7
