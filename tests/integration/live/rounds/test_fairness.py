"""A queue whose jobs fare far worse than on an equal share is told of once, and again when that is over."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

from scheduler.core.model.lifecycle import JobState
from scheduler.live.observed.fairness import EVERY_S, LEAST_AGE, LEAST_JOBS, Fairness
from scheduler.models import Attempt, Event, Job, Queue
from scheduler.models.queue import Role
from scheduler.selectors.accounts.notices import OF_A_QUEUE, notice_of
from tests.support.rows.factories import AT, job_make, member_make, queue_make, server_make

pytestmark = pytest.mark.django_db
NOW = AT + timedelta(hours=2)


@pytest.fixture(autouse=True)
def _static(settings: Any, tmp_path: Path) -> None:
    """Static files as they lie in the tree."""
    settings.STATIC_ROOT = tmp_path
    settings.STORAGES = {
        **settings.STORAGES,
        "staticfiles": {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"},
    }


def ended(queue: Queue, *, run_s: float) -> Job:
    """Return a job that completed an hour after it was submitted and ran for so long of it."""
    job = job_make(queue, state=JobState.COMPLETED, server=server_make(gpus=1))
    Job.objects.filter(pk=job.pk).update(executed_s=run_s, ended_at=AT + timedelta(hours=1))
    return job


def told(queue: Queue) -> list[str]:
    """Return what was told of a queue, oldest first."""
    return list(
        Event.objects.filter(queue=queue, kind__startswith="fairness").order_by("id").values_list("kind", flat=True)
    )


def test_alert_comes_once_and_is_taken_back(client: Client) -> None:
    """Three jobs that ran for a tenth of their hour: over; with many that ran all of it: no more."""
    bad, good = queue_make("vision", quota_gpus=4), queue_make("speech", quota_gpus=4)
    for _ in range(LEAST_JOBS):
        ended(bad, run_s=360.0)
        ended(good, run_s=3_600.0)
    watch = Fairness()

    for minute in range(3):
        watch.check(at=NOW, now_s=minute * EVERY_S)
    assert (told(bad), told(good)) == (["fairness_over"], [])
    event = Event.objects.get(queue=bad, kind="fairness_over")
    assert event.data["rho"] > event.data["limit"] == 2.0
    assert notice_of(kind=event.kind, old_state="", new_state="") in OF_A_QUEUE
    client.force_login(member_make(bad, Role.VIEWER))
    assert "times their fair time (limit" in client.get("/queues/vision").content.decode()

    for _ in range(40):
        ended(bad, run_s=3_600.0)
    watch.check(at=NOW, now_s=4 * EVERY_S)
    assert told(bad) == ["fairness_over", "fairness_again"]
    assert "times their fair time" not in client.get("/queues/vision").content.decode()


def test_running_jobs_count_once_they_are_old_enough() -> None:
    """Three jobs that have run for a tenth of 80 s say nothing; the same in ten minutes do."""
    queue = queue_make("vision", quota_gpus=4)
    for _ in range(LEAST_JOBS):
        job = job_make(queue, state=JobState.RUNNING, server=server_make(gpus=1))
        Job.objects.filter(pk=job.pk).update(submitted_at=AT, executed_s=8.0)
        Attempt.objects.filter(job=job).update(started_at=AT + timedelta(days=1))
    watch = Fairness()

    watch.check(at=AT + timedelta(seconds=80), now_s=0.0)
    assert told(queue) == []
    watch.check(at=AT + LEAST_AGE, now_s=EVERY_S)
    assert told(queue) == ["fairness_over"]


def test_few_jobs_and_no_limit_tell_nothing(settings: Any) -> None:
    """One unlucky job is no queue; and an operator may switch it off."""
    queue = queue_make("vision", quota_gpus=4)
    ended(queue, run_s=360.0)
    Fairness().check(at=NOW, now_s=0.0)
    for _ in range(LEAST_JOBS):
        ended(queue, run_s=360.0)
    settings.FAIRNESS_LIMIT = 0.0
    Fairness().check(at=NOW, now_s=0.0)

    assert told(queue) == []
