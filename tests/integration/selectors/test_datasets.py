"""Bad items of datasets, out of files that jobs write: only those of one's own jobs, whatever else stands in them."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from scheduler.core.model.errors import NotFound
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job
from scheduler.selectors.jobs.datasets import MOST_ITEMS, job_bad_items
from tests.support.rows import factories

pytestmark = pytest.mark.django_db


def _write(shared: Path, name: str, *lines: object) -> Path:
    path = shared / "datasets" / name / "bad.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def shared(settings: Any, tmp_path: Path) -> Path:
    """Return the shared directory."""
    settings.SHARED_DIR = tmp_path
    return tmp_path


def _running() -> tuple[Job, str]:
    job = factories.job_make(state=JobState.RUNNING)
    return job, job.attempts.get().pk


def test_items_that_a_job_left_out_are_listed(shared: Path) -> None:
    """Also below the folder of a user; those of other jobs are not told."""
    job, attempt = _running()
    _write(
        shared, "photos", {"key": "a.jpg", "error": "ValueError: torn", "job": attempt}, {"key": "b", "job": "other"}
    )
    _write(shared, "20001/sounds", {"key": "c.wav", "error": "OSError", "job": attempt})

    assert job_bad_items(job.owner if job.owner.is_superuser else factories.user_make(admin=True), str(job.number)) == [
        {"dataset": "photos", "attempt": 1, "key": "a.jpg", "error": "ValueError: torn"},
        {"dataset": "sounds", "attempt": 1, "key": "c.wav", "error": "OSError"},
    ]


def test_stranger_learns_nothing(shared: Path) -> None:
    """As of any job that one may not see."""
    job, attempt = _running()
    _write(shared, "photos", {"key": "a.jpg", "error": "", "job": attempt})

    with pytest.raises(NotFound):
        job_bad_items(factories.user_make(), str(job.number))


def test_hostile_files_do_no_harm(shared: Path) -> None:
    """Half lines, other shapes, links, pipes, and more than anybody reads."""
    job, attempt = _running()
    admin = factories.user_make(admin=True)
    good = {"key": "x" * 1000, "error": None, "job": attempt}
    path = _write(shared, "photos", "[1, 2]\n", '{"key": "half', "\n", *[good] * (MOST_ITEMS + 10))
    (shared / "datasets" / "link").mkdir()
    (shared / "datasets" / "link" / "bad.jsonl").symlink_to(path)
    (shared / "datasets" / "pipe").mkdir()
    os.mkfifo(shared / "datasets" / "pipe" / "bad.jsonl")
    found = job_bad_items(admin, str(job.number))

    assert 0 < len(found) <= MOST_ITEMS
    assert {len(row["key"]) for row in found} == {300}
    assert {row["dataset"] for row in found} == {"photos"}
