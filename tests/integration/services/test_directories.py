"""The directories of ended jobs: how long they are kept, what a limit removes, and who may free the space."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.db import transaction

from agents.files.job_removal import named_directories_remove
from scheduler.core.model.errors import Conflict, NotAllowed, SpecInvalid
from scheduler.core.model.lifecycle import TERMINAL, JobState
from scheduler.models import Event, Job, Queue
from scheduler.models.queue import Role
from scheduler.selectors.queues.stored import queue_stored
from scheduler.services.jobs.directory import job_discard
from scheduler.services.queues.directories import queue_keep_directories
from scheduler.services.retention.remove import old_rows_remove
from tests.support.rows.factories import AT, job_make, member_make, queue_make

pytestmark = pytest.mark.django_db(transaction=True)
GB = 10**9
LATER = AT + timedelta(days=31)


@pytest.fixture(autouse=True)
def shared(settings: Any, tmp_path: Path) -> Path:
    """Return the shared directory."""
    settings.SHARED_DIR = tmp_path
    (tmp_path / "jobs").mkdir()
    return tmp_path


def made(
    shared: Path,
    queue: Queue,
    *,
    state: JobState = JobState.COMPLETED,
    size: int = GB,
    owner: User | None = None,
    **columns: Any,
) -> Job:
    """Return a job with a directory on disk."""
    job = job_make(queue, state=state, owner=owner or member_make(queue), directory_bytes=size, **columns)
    (shared / "jobs" / job.pk / "dir" / "out").mkdir(parents=True)
    (shared / "jobs" / job.pk / "dir" / "out" / "last").write_text("weights")
    return job


def clean_up(shared: Path, *, at: Any = LATER) -> None:
    """Let the clean-up and an agent do their parts, twice."""
    for _ in range(2):
        old_rows_remove(at=at, go_on=lambda: True)
        named_directories_remove(str(shared), spared=(), budget_s=10.0)
    old_rows_remove(at=at, go_on=lambda: True)


def left(shared: Path) -> set[str]:
    """Return the jobs that have a directory."""
    return {path.name for path in (shared / "jobs").iterdir()}


def test_directory_goes_when_its_queue_has_kept_it_long_enough(shared: Path, settings: Any) -> None:
    """And not before; the row of the job waits for it."""
    settings.KEEP_JOBS_DAYS = 1
    month, week = queue_make("month"), queue_make("week", keep_directories_days=7)
    of_month, of_week = made(shared, month), made(shared, week)
    clean_up(shared, at=AT + timedelta(days=8))

    assert left(shared) == {of_month.pk}
    assert Job.objects.filter(pk=of_month.pk).exists()
    assert not Job.objects.filter(pk=of_week.pk).exists()
    assert not list((shared / "removals").iterdir())


@pytest.mark.parametrize("state", [state for state in JobState if state not in TERMINAL])
def test_nothing_that_a_job_needs_is_removed(shared: Path, state: JobState) -> None:
    """Neither by age nor by a limit nor for its owner."""
    queue = queue_make(keep_directories_days=0, directories_most_bytes=2**20, user_directories_most_bytes=2**20)
    job = made(shared, queue, state=state)
    clean_up(shared)
    with pytest.raises(Conflict, match="what it needs is not removed"):
        job_discard(actor=job.owner, job=job, at=LATER)

    assert left(shared) == {job.pk}


def test_job_that_runs_on_a_server_keeps_its_directory_there(shared: Path) -> None:
    """Whatever was named: the agent knows its jobs."""
    job = made(shared, queue_make())
    (shared / "removals").mkdir()
    (shared / "removals" / job.pk).touch()
    (shared / "removals" / "not-a-job").touch()
    named_directories_remove(str(shared), spared={job.pk}, budget_s=10.0)

    assert left(shared) == {job.pk}


def test_owner_frees_space_and_the_page_knows(shared: Path) -> None:
    """Owners and leads; once more changes nothing; the removal is an event."""
    queue = queue_make()
    job, stranger = made(shared, queue), member_make(queue)
    with pytest.raises(NotAllowed):
        job_discard(actor=stranger, job=job, at=LATER)
    job_discard(actor=job.owner, job=job, at=AT)
    job_discard(actor=job.owner, job=job, at=LATER)
    assert (shared / "removals" / job.pk).exists()
    clean_up(shared, at=AT + timedelta(hours=1))
    job.refresh_from_db()

    assert left(shared) == set()
    assert (job.directory_bytes, job.directory_removal_at) == (0, AT)
    assert job.directory_removed_at is not None
    assert Event.objects.get(kind="directory_removal").data == {"size_bytes": GB}


def test_undone_request_names_nothing(shared: Path) -> None:
    """What is not committed is not asked of an agent."""
    job = made(shared, queue_make())
    with transaction.atomic():
        job_discard(actor=job.owner, job=job, at=LATER)
        transaction.set_rollback(True)

    assert not (shared / "removals").exists()


def test_limit_removes_the_oldest_but_none_that_ended_lately(shared: Path) -> None:
    """Of the queue and of each user; what runs counts and stays."""
    queue = queue_make(directories_most_bytes=3 * GB)
    now = AT + timedelta(days=10)
    owner = member_make(queue)
    oldest, newer = (made(shared, queue, owner=owner, at=AT + timedelta(days=day)) for day in (0, 2))
    lately = made(shared, queue, owner=owner, at=now - timedelta(days=1))
    runs = made(shared, queue, owner=owner, state=JobState.RUNNING)
    assert queue_stored(queue).num_bytes == 4 * GB
    clean_up(shared, at=now)

    assert left(shared) == {newer.pk, lately.pk, runs.pk}
    assert queue_stored(queue).num_bytes == 3 * GB
    Queue.objects.update(directories_most_bytes=None, user_directories_most_bytes=GB // 2)
    clean_up(shared, at=now)
    assert left(shared) == {lately.pk, runs.pk}
    assert not Job.objects.filter(pk=oldest.pk, directory_removed_at=None).exists()


def test_shared_directory_that_is_away_says_nothing(shared: Path) -> None:
    """A directory counts as gone only where those of others would be seen."""
    job = made(shared, queue_make())
    job_discard(actor=job.owner, job=job, at=LATER)
    (shared / "jobs").rename(shared / "away")
    old_rows_remove(at=LATER, go_on=lambda: True)
    job.refresh_from_db()

    assert job.directory_removed_at is None


def test_leads_say_how_long(shared: Path) -> None:
    """With a reason, in the audit; members are refused and bad numbers name their field."""
    queue = queue_make("vision")
    lead, member = member_make(queue, Role.LEAD), member_make(queue)
    values: dict[str, Any] = {
        "queue": queue,
        "keep_directories_days": 14,
        "directories_most_bytes": 500 * GB,
        "user_directories_most_bytes": None,
        "at": AT,
    }
    changed = queue_keep_directories(actor=lead, reason="disk is full", expected_version=queue.version, **values)

    assert (changed.keep_directories_days, changed.directories_most_bytes) == (14, 500 * GB)
    assert Event.objects.get(kind="kept_files").data["before"]["keep_directories_days"] == 30
    with pytest.raises(NotAllowed):
        queue_keep_directories(actor=member, reason="mine", expected_version=2, **values)
    with pytest.raises(SpecInvalid) as refused:
        queue_keep_directories(actor=lead, reason="x", expected_version=2, **(values | {"keep_directories_days": -1}))
    assert [error.pointer for error in refused.value.errors] == ["/reason", "/keep_directories_days"]
