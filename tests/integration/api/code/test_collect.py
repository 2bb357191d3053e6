"""Folders go when no job needs them, and never while one does."""

import os
from datetime import timedelta
from pathlib import Path

from django.conf import settings

from scheduler.core.model.lifecycle import JobState
from scheduler.models import CodeBlob, CodeFolder, Job
from scheduler.services.code.folders import code_use
from scheduler.services.code.store import blob_path
from scheduler.services.retention.remove import old_rows_remove
from tests.integration.api.conftest import World
from tests.support.rows.code import FILES, digest_of, folder_send, offered
from tests.support.rows.factories import AT, job_make

LATER = AT + timedelta(days=31)
OTHER = {**FILES, "train.py": b"print('other')\n"}


def passes(number: int = 1) -> None:
    """Clean up so many times, a minute apart."""
    for minute in range(number):
        old_rows_remove(at=LATER + timedelta(minutes=minute), go_on=lambda: True)


def stored() -> set[str]:
    """Return the names of all files of the store."""
    return {path.name for path in (Path(settings.SHARED_DIR) / "code").rglob("*") if path.is_file()}


def test_folder_goes_with_what_it_alone_holds(world: World) -> None:
    """A content of two folders stays until both have gone."""
    folder_send(world.users["member"])
    folder_send(world.users["member"], OTHER)
    CodeFolder.objects.filter(pk=digest_of(OTHER)).update(used_at=LATER)
    passes()

    assert [folder.pk for folder in CodeFolder.objects.all()] == [digest_of(OTHER)]
    assert len(stored()) == 3  # two contents and a manifest
    CodeFolder.objects.update(used_at=AT)
    passes()
    assert stored() == set()
    assert not CodeBlob.objects.exists()


def test_folder_of_a_job_that_has_not_ended_stays(world: World) -> None:
    """Whatever its age: a suspended job may start again after months."""
    folder_send(world.users["member"])
    job = job_make(world.vision, state=JobState.SUSPENDED, owner=world.users["member"])
    Job.objects.filter(pk=job.pk).update(code=digest_of())
    passes()

    assert CodeFolder.objects.count() == 1
    Job.objects.filter(pk=job.pk).update(state=JobState.CANCELLED, ended_at=AT, wait_reason="")
    passes()
    assert not CodeFolder.objects.exists()


def test_use_counts_from_the_last_submit(world: World) -> None:
    """A folder that is used each month is not sent each month."""
    folder_send(world.users["member"])
    code_use({digest_of()}, at=LATER - timedelta(days=1))
    passes()

    assert CodeFolder.objects.count() == 1


def test_what_never_arrived_whole_goes_after_a_day(world: World) -> None:
    """A manifest that was offered and its contents never sent."""
    offered(world.users["member"])
    assert stored() == {"manifest.json"}
    [begun] = (Path(settings.SHARED_DIR) / "code/incoming").iterdir()
    os.utime(begun, (AT.timestamp(), AT.timestamp()))
    passes()

    assert stored() == set()


def test_content_that_a_killed_process_left_goes(world: World) -> None:
    """A file without a row is found, wherever it is, within as many passes as the store has parts."""
    folder_send(world.users["member"])
    CodeFolder.objects.update(used_at=LATER)
    left = blob_path("ab" * 32)
    left.parent.mkdir(parents=True, exist_ok=True)
    left.write_bytes(b"left")
    passes(258)

    assert not left.exists()
    assert len(stored()) == 3
