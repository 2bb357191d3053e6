"""Chosen files of an ended job are deleted: by whom, how far, and what a request that goes wrong leaves."""

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from agents.files.job_removal import named_files_remove
from scheduler.core.model.errors import Conflict, NotAllowed, NotFound
from scheduler.models import Event, Job
from scheduler.selectors.accounts.audit import audit_row
from scheduler.services.jobs.directory import job_discard
from scheduler.services.retention.remove import old_rows_remove
from tests.support.rows.factories import AT, member_make, queue_make
from tests.support.rows.job_directories import GB, clean_up, made

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def shared(settings: Any, tmp_path: Path) -> Path:
    """Return the shared directory."""
    settings.SHARED_DIR = tmp_path
    (tmp_path / "jobs").mkdir()
    return tmp_path


def test_owner_deletes_some_files_and_the_rest_stays(shared: Path) -> None:
    """Owners and leads; an agent does it, the clean-up notes the bytes and takes the request back."""
    queue = queue_make()
    job, stranger = made(shared, queue), member_make(queue)
    directory = shared / "jobs" / job.pk / "dir"
    for name in ("a.txt", "b.txt", os.fsdecode(b"\xff")):
        (directory / name).write_text("1234")
    with pytest.raises(NotAllowed):
        job_discard(actor=stranger, job=job, at=AT, paths=["a.txt"])
    with pytest.raises(NotFound, match="'nowhere'"):
        job_discard(actor=job.owner, job=job, at=AT, paths=["nowhere"])
    for whole in ("", "/"):
        with pytest.raises(NotFound, match="the whole directory"):
            job_discard(actor=job.owner, job=job, at=AT, paths=["a.txt", whole])
    taken = sum(path.stat().st_blocks * 512 for path in directory.rglob("*") if path.name not in ("b.txt", "out"))
    job_discard(actor=job.owner, job=job, at=AT, paths=["out", "out/last", "a.txt", "%FF"])
    for again in ("a.txt", "out/last"):
        with pytest.raises(Conflict, match="is being deleted already"):
            job_discard(actor=job.owner, job=job, at=AT, paths=["b.txt", again])
    clean_up(shared, at=AT + timedelta(hours=1))
    job.refresh_from_db()

    assert {path.name for path in directory.iterdir()} == {"b.txt"}
    assert (job.directory_bytes, job.directory_removal_at) == (GB - taken, None)
    assert list((shared / "file-removals").iterdir()) == []
    event = Event.objects.get(kind="files_removal")
    assert event.data == {"paths": "a.txt, out, %FF", "files": 3, "size_bytes": 15}
    audited = audit_row(event)
    assert (audited["before"], audited["after"], audited["data"]) == (event.data, None, {})


def test_a_request_that_cannot_be_read_is_taken_back_and_holds_nothing_up(shared: Path) -> None:
    """The disk was full as it was written: the clean-up goes on, and the job keeps its bytes."""
    job = made(shared, queue_make())
    (shared / "file-removals").mkdir()
    (shared / "file-removals" / f"{job.pk}.1").touch()
    clean_up(shared, at=AT + timedelta(hours=1))
    job.refresh_from_db()

    assert list((shared / "file-removals").iterdir()) == []
    assert job.directory_bytes == GB


def test_request_that_cannot_be_written_deletes_nothing_and_says_so(shared: Path) -> None:
    """A full disk, a folder that is none: the user hears of it, and no event tells of a removal."""
    job = made(shared, queue_make())
    (shared / "file-removals").write_text("")

    with pytest.raises(Conflict, match="Nothing is deleted: the request cannot be written"):
        job_discard(actor=job.owner, job=job, at=AT, paths=["out/last"])

    assert not Event.objects.filter(kind="files_removal").exists()


def test_a_folder_that_its_job_closed_is_opened_for_the_removal_and_closed_again(shared: Path) -> None:
    """An agent that is not root could remove nothing from it."""
    job = made(shared, queue_make())
    folder = shared / "jobs" / job.pk / "dir" / "out"
    (folder / "more").write_text("1")
    folder.chmod(0o555)
    job_discard(actor=job.owner, job=job, at=AT, paths=["out/last"])
    clean_up(shared, at=AT)

    assert [path.name for path in folder.iterdir()] == ["more"]
    assert folder.stat().st_mode & 0o777 == 0o555
    assert not list((shared / "file-removals").iterdir())


def test_request_of_files_stays_until_an_agent_has_removed_them(shared: Path) -> None:
    """One that runs the job leaves them; what it cannot see it does not note as gone."""
    job = made(shared, queue_make())
    job_discard(actor=job.owner, job=job, at=AT, paths=["out/last"])
    named_files_remove(str(shared), spared={job.pk}, budget_s=10.0)
    old_rows_remove(at=AT, go_on=lambda: True)

    assert (shared / "jobs" / job.pk / "dir" / "out" / "last").exists()
    assert len(list((shared / "file-removals").iterdir())) == 1


def test_what_no_agent_can_remove_ends_after_a_day_and_says_so(shared: Path) -> None:
    """One event that names the files and what to do; the job keeps its bytes, and may be asked for again."""
    job = made(shared, queue_make())
    job_discard(actor=job.owner, job=job, at=AT, paths=["out/last"])
    request = next((shared / "file-removals").iterdir())
    os.utime(request, times=(AT.timestamp(), AT.timestamp()))
    old_rows_remove(at=AT + timedelta(hours=23), go_on=lambda: True)
    assert request.exists()

    for hours in (24, 25):
        old_rows_remove(at=AT + timedelta(hours=hours), go_on=lambda: True)
    job.refresh_from_db()

    assert not request.exists()
    assert job.directory_bytes == GB
    told = Event.objects.get(kind="files_not_removed")
    assert (told.job, told.data) == (job, {"paths": "out/last", "directory": f"jobs/{job.pk}"})
    job_discard(actor=job.owner, job=job, at=AT + timedelta(hours=26), paths=["out/last"])
    assert len(list((shared / "file-removals").iterdir())) == 1


def test_of_two_requests_at_the_same_moment_one_is_refused(shared: Path) -> None:
    """The second may come when the first is committed, and before agents can see it: one event, one request."""
    job = made(shared, queue_make())
    refused: list[str] = []

    def second() -> None:
        with pytest.raises(Conflict, match="out/last is being deleted already") as error:
            job_discard(actor=job.owner, job=job, at=AT, paths=["out/last"])
        refused.append(str(error.value))

    with transaction.atomic():
        transaction.on_commit(second)
        job_discard(actor=job.owner, job=job, at=AT, paths=["out/last"])

    assert len(refused) == 1
    assert Event.objects.filter(kind="files_removal").count() == 1
    assert len(list((shared / "file-removals").iterdir())) == 1


def test_a_request_that_was_taken_back_refuses_no_other(shared: Path) -> None:
    """Its transaction failed: what is left of it on disk says nothing, and no agent looks at it."""
    job = made(shared, queue_make())
    with transaction.atomic():
        job_discard(actor=job.owner, job=job, at=AT, paths=["out/last"])
        transaction.set_rollback(True)

    job_discard(actor=job.owner, job=Job.objects.get(pk=job.pk), at=AT, paths=["out/last"])

    assert Event.objects.filter(kind="files_removal").count() == 1


def test_the_directory_is_asked_for_once(shared: Path) -> None:
    """Of two requests for all of it the second changes nothing: one event, one row of the audit."""
    job = made(shared, queue_make())
    with transaction.atomic():
        transaction.on_commit(lambda: job_discard(actor=job.owner, job=job, at=AT))
        job_discard(actor=job.owner, job=job, at=AT)

    assert Event.objects.filter(kind="directory_removal").count() == 1


@pytest.mark.parametrize(
    "paths", [[["..", "..", "canary"]], [["link", "canary"]], [["out", ""]], [[]], [["a/../../../canary"]], "x", None]
)
def test_no_path_of_a_request_leads_out_of_the_directory(shared: Path, paths: object) -> None:
    """Whatever stands in it: no link is followed on the way, and of a link only itself goes."""
    job = made(shared, queue_make())
    (shared / "canary").write_text("not the job's")
    directory = shared / "jobs" / job.pk / "dir"
    (directory / "link").symlink_to(shared)
    (directory / "own").symlink_to(shared / "canary")
    (shared / "file-removals").mkdir()
    (shared / "file-removals" / f"{job.pk}.1").write_text(json.dumps({"paths": paths}))
    (shared / "file-removals" / f"{job.pk}.2").write_text(json.dumps({"paths": [["own"]]}))
    named_files_remove(str(shared), spared=(), budget_s=10.0)

    assert (shared / "canary").exists()
    assert {path.name for path in directory.iterdir()} == {"link", "out"}
