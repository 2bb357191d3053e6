"""The directories of ended jobs: how long they are kept, what a limit removes, and which users may free the space."""

from datetime import timedelta
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from django.db import transaction

from agents.files.job_removal import named_directories_remove
from scheduler.core.model.errors import Conflict, NotAllowed, SpecInvalid
from scheduler.core.model.lifecycle import TERMINAL, JobState
from scheduler.models import Event, Job, Queue
from scheduler.models.queue import Role
from scheduler.selectors.directories import directory_kept_until, queue_keeps_until, too_old
from scheduler.selectors.queues.stored import queue_stored
from scheduler.services.jobs.directory import job_discard, job_keep
from scheduler.services.queues.directories import queue_keep_directories
from scheduler.services.retention import directories
from scheduler.services.retention.remove import old_rows_remove
from tests.support.rows.factories import AT, job_make, member_make, queue_make
from tests.support.rows.job_directories import GB, LATER, clean_up, made

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def shared(settings: Any, tmp_path: Path) -> Path:
    """Return the shared directory."""
    settings.SHARED_DIR = tmp_path
    (tmp_path / "jobs").mkdir()
    return tmp_path


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
    with pytest.raises(Conflict, match="what it needs is not removed"):
        job_discard(actor=job.owner, job=job, at=LATER, paths=["out"])

    assert left(shared) == {job.pk}
    assert (shared / "jobs" / job.pk / "dir" / "out" / "last").exists()


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


def test_asked_for_stays_longer_than_its_queue_keeps(shared: Path, settings: Any) -> None:
    """Until that date, with the row of its job; a date before the end of the rule shortens nothing."""
    settings.KEEP_JOBS_DAYS = 1
    queue = queue_make()
    asked, other = made(shared, queue), made(shared, queue)
    shorter = made(shared, queue, keep_directory_until=AT + timedelta(days=2))
    job_keep(actor=asked.owner, job=asked, until=AT + timedelta(days=60), at=AT + timedelta(days=1))
    clean_up(shared, at=AT + timedelta(days=29))
    assert left(shared) == {asked.pk, other.pk, shorter.pk}
    clean_up(shared, at=AT + timedelta(days=59))
    assert left(shared) == {asked.pk}
    assert Job.objects.get() == asked
    clean_up(shared, at=AT + timedelta(days=61))

    assert left(shared) == set()


def test_many_that_stay_longer_hold_up_no_other(shared: Path) -> None:
    """A pass looks at so many of the oldest at once; the next ones are found all the same."""
    queue = queue_make()
    owner = member_make(queue)
    later = AT + timedelta(days=60)
    for _ in range(3):
        made(shared, queue, owner=owner, keep_directory_until=later)
    last = made(shared, queue, owner=owner, at=AT + timedelta(hours=1))
    with patch.object(directories, "JOBS_A_CHUNK", 2):
        clean_up(shared)

    assert last.pk not in left(shared)
    assert len(left(shared)) == 3


def test_limit_counts_what_stays_longer_and_removes_it_first_as_the_oldest(shared: Path) -> None:
    """A date would else let one user fill a queue: limits of the queue and of a user go before it."""
    queue = queue_make(directories_most_bytes=2 * GB)
    owner = member_make(queue)
    asked = made(shared, queue, owner=owner)
    newer = [made(shared, queue, owner=owner, at=AT + timedelta(days=day)) for day in (1, 2)]
    job_keep(actor=owner, job=asked, until=AT + timedelta(days=300), at=AT + timedelta(days=1))
    assert queue_stored(queue).num_bytes == 3 * GB
    clean_up(shared, at=AT + timedelta(days=10))
    assert left(shared) == {job.pk for job in newer}
    Queue.objects.update(directories_most_bytes=None, user_directories_most_bytes=GB)
    job_keep(actor=owner, job=newer[0], until=AT + timedelta(days=300), at=AT + timedelta(days=3))
    clean_up(shared, at=AT + timedelta(days=10))

    assert left(shared) == {newer[1].pk}


@pytest.mark.parametrize("asked_days", [None, 0, 5, 6, 9, 20])
@pytest.mark.parametrize("queue_days", [0, 6, 10])
def test_sweep_and_page_say_the_same_date(asked_days: int | None, queue_days: int) -> None:
    """What selects many jobs and what tells the date of one agree, a second before it and after it.

    A queue whose rule says less keeps files for three days: they are gone for good, and a number may be a slip.
    """
    queue = queue_make(keep_directories_days=queue_days)
    asked = None if asked_days is None else AT + timedelta(days=asked_days)
    job = job_make(queue, state=JobState.COMPLETED, directory_bytes=1, keep_directory_until=asked)
    until = directory_kept_until(job)
    assert until is not None
    assert job.ended_at is not None

    assert until == max(job.ended_at + timedelta(days=max(3, queue_days)), asked or AT)
    assert not Job.objects.filter(too_old(queue, until)).exists()
    assert Job.objects.filter(too_old(queue, until + timedelta(seconds=1))).exists()


def test_date_is_an_event_and_can_be_taken_back(shared: Path) -> None:
    """The same date is no second event; without one the rule of the queue holds again."""
    job = made(shared, queue_make())
    until, by_queue = AT + timedelta(days=60), queue_keeps_until(job)
    for _ in range(2):
        job_keep(actor=job.owner, job=job, until=until, at=AT)
    job_keep(actor=job.owner, job=job, days=10, at=AT)
    more = job_keep(actor=job.owner, job=job, at=AT)
    told = Event.objects.filter(kind="directory_kept").order_by("pk")

    assert [event.reason for event in told] == ["keep", "keep", "keep_no_longer"]
    assert told[1].data == {
        "keep_until": {"before": "2026-05-06T14:32:00Z", "after": "2026-05-16T14:32:00Z"},
        "day": "2026-05-16",
    }
    assert directory_kept_until(more) == by_queue


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"until": AT + timedelta(days=2)}, "a day from 2026-04-06, until when vision keeps them anyway, to"),
        ({"until": AT - timedelta(days=2)}, "You gave 2026-03-05."),
        ({"until": AT + timedelta(days=367)}, " to 2027-03-07. You gave 2027-03-09."),
        ({"days": 0}, "must be between 1 and 334"),
        ({"days": 335}, "You asked for 335."),
        ({"days": 10**12}, "must be between 1 and 334"),
    ],
)
def test_bad_date_is_told_with_what_is_right(shared: Path, asked: dict[str, Any], says: str) -> None:
    """Within the rule, past, beyond a year; the field is named and nothing is stored."""
    job = made(shared, queue_make("vision"))
    with pytest.raises(SpecInvalid) as refused:
        job_keep(actor=job.owner, job=job, at=AT, **asked)
    job.refresh_from_db()

    [error] = refused.value.errors
    assert error.pointer == f"/{next(iter(asked))}"
    assert says in error.detail
    assert job.keep_directory_until is None


def test_past_date_is_told_where_its_queue_keeps_it_no_longer(shared: Path) -> None:
    """The sweep has not come yet, or the date of a user is all that holds it: then the way back would delete it."""
    job = made(shared, queue_make("vision"), keep_directory_until=AT + timedelta(days=60))
    at = AT + timedelta(days=40)
    with pytest.raises(SpecInvalid, match="must be a day from 2026-04-16 to 2027-04-16"):
        job_keep(actor=job.owner, job=job, until=AT + timedelta(days=35), at=at)
    with pytest.raises(Conflict, match=r"vision kept the files .* until 2026-04-06: without a date .* removed at once"):
        job_keep(actor=job.owner, job=job, at=at)


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({"state": JobState.RUNNING}, "is running: its files are all kept"),
        ({"directory_bytes": None}, "has no directory: it never started"),
        ({"directory_removal_at": AT}, "has no files any more"),
    ],
)
def test_job_without_files_to_keep_is_refused(shared: Path, columns: dict[str, Any], says: str) -> None:
    """One that has not ended keeps all; the others have nothing."""
    job = made(shared, queue_make(), state=columns.pop("state", JobState.COMPLETED))
    Job.objects.filter(pk=job.pk).update(**columns)
    with pytest.raises(Conflict, match=says):
        job_keep(actor=job.owner, job=job, days=30, at=AT)


def test_queue_that_keeps_files_for_years_needs_no_date(shared: Path) -> None:
    """There is no date that would be right, and the refusal says until when they are kept."""
    job = made(shared, queue_make(keep_directories_days=1_000))
    for asked in ({"days": 30}, {"until": AT + timedelta(days=360)}):
        with pytest.raises(Conflict, match="are kept until 2028-12-01; a date may be a year ahead at most"):
            job_keep(actor=job.owner, job=job, at=AT, **asked)


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
        queue_keep_directories(actor=lead, reason="x", expected_version=2, **(values | {"keep_directories_days": 2}))
    assert [error.pointer for error in refused.value.errors] == ["/reason", "/keep_directories_days"]
