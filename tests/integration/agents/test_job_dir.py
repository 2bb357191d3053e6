"""The directory of a job on disk: laid in once, held by the latest attempt, given to the job's user."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from agents.files import job_dir
from agents.files.atomic import open_directory, write_at
from agents.files.job_dir import LAID_FILE, DirectoryRefused, JobDir
from agents.files.job_hold import Hold
from agents.files.ownership import tree_give
from agents.files.scratch import scratch_left, scratch_make, scratch_remove
from tests.support.agents.server import attempt_id

JOB = "01JD0000000000000000000J0B"
root_alone = pytest.mark.skipif(os.geteuid() != 0, reason="USERS OF JOBS ARE NOT TESTED: only root can give files away")
USER, OTHER = 50_003, 50_004


def lay_in(dir_fd: int) -> dict[str, Any]:
    """Lay one file in."""
    write_at(dir_fd, "train.py", b"as sent", durable=False)
    return {"files": {"train.py": "digest"}}


def prepared(shared: Path, *, number: int = 1, epoch: int = 1, uid: int | None = None) -> bool:
    """Have an attempt prepare the directory; return whether it was new."""
    directory = JobDir(str(shared), JOB, Hold(epoch, number))
    fd, is_new = directory.prepare(attempt_id=attempt_id(), uid=uid, lay_in=lay_in)
    os.close(fd)
    os.close(directory.fd)
    return is_new


def around(shared: Path) -> Path:
    """Return the folder around the directory."""
    return shared / "jobs" / JOB


def test_what_the_job_changed_or_deleted_stays_so(tmp_path: Path) -> None:
    """Files are laid in at the first start alone."""
    assert prepared(tmp_path)
    assert (around(tmp_path) / "dir" / "train.py").read_text() == "as sent"
    (around(tmp_path) / "dir" / "train.py").write_text("changed")
    assert not prepared(tmp_path, number=2)
    assert (around(tmp_path) / "dir" / "train.py").read_text() == "changed"
    (around(tmp_path) / "dir" / "train.py").unlink()
    assert not prepared(tmp_path, number=3)

    assert list((around(tmp_path) / "dir").iterdir()) == []
    assert json.loads((around(tmp_path) / LAID_FILE).read_text())["files"] == {"train.py": "digest"}


RANK = """
import os, sys
from pathlib import Path
from tests.integration.agents.test_job_dir import prepared
sys.stdin.read(1)
print(prepared(Path(sys.argv[1])), os.stat(Path(sys.argv[1]) / "jobs").st_ino)
"""


def test_ranks_that_begin_at_once_get_one_directory(tmp_path: Path) -> None:
    """Of eight processes that lay in at the same time one counts, and the others leave nothing behind."""
    ranks = [
        subprocess.Popen([sys.executable, "-c", RANK, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        for _ in range(8)
    ]
    for rank in ranks:
        assert rank.stdin is not None
        rank.stdin.write(b"x")
        rank.stdin.flush()
    said = [rank.communicate()[0].split()[0] for rank in ranks]

    assert sorted(said) == [b"False"] * 7 + [b"True"]
    assert sorted(path.name for path in around(tmp_path).iterdir()) == ["attempt-1-1", "dir", "home", "laid.json"]
    assert [path.name for path in (around(tmp_path) / "dir").iterdir()] == ["train.py"]


@pytest.mark.parametrize("found", ["nothing", "link"])
def test_folder_that_another_rank_has_just_made_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, found: str
) -> None:
    """It is made between our look and our turn, and its process has written in it already."""
    home = around(tmp_path) / "home"
    prepared(tmp_path)
    home.rmdir()
    if found == "link":
        home.symlink_to(tmp_path)
    looks: list[str] = []

    def looked(name: str, *, dir_fd: int | None = None) -> int:
        try:
            return open_directory(name, dir_fd=dir_fd)
        except OSError:
            looks.append(name)
            if len(looks) == 1:
                home.unlink(missing_ok=True)
                home.mkdir()
                (home / "cache").write_text("of the other rank")
            raise

    monkeypatch.setattr(job_dir, "open_directory", looked)
    prepared(tmp_path, number=2)

    assert looks == ["home"]
    assert (home / "cache").read_text() == "of the other rank"
    assert sorted(path.name for path in around(tmp_path).iterdir()) == ["attempt-1-2", "dir", "home", "laid.json"]


def test_start_that_was_cut_short_is_finished_by_the_next(tmp_path: Path) -> None:
    """Before it counted it is made anew; after that, its directory is moved into its place."""
    around(tmp_path).mkdir(parents=True)
    (around(tmp_path) / ".new.half").mkdir()
    assert prepared(tmp_path)

    other = tmp_path / "other"
    (around(other) / ".new.whole").mkdir(parents=True)
    (around(other) / ".new.whole" / "train.py").write_text("whole")
    (around(other) / LAID_FILE).write_text(json.dumps({"staged": ".new.whole"}))
    assert not prepared(other)
    assert (around(other) / "dir" / "train.py").read_text() == "whole"


def test_directory_that_is_gone_or_no_directory_is_made_empty(tmp_path: Path) -> None:
    """A job of our own user, unconfined, can delete it or put a link in its place; the link is not followed."""
    prepared(tmp_path)
    (around(tmp_path) / "dir" / "train.py").unlink()
    (around(tmp_path) / "dir").rmdir()
    (tmp_path / "key").mkdir()
    (around(tmp_path) / "home").rmdir()
    (around(tmp_path) / "home").symlink_to(tmp_path / "key")
    assert not prepared(tmp_path, number=2)

    assert list((around(tmp_path) / "dir").iterdir()) == []
    assert not (around(tmp_path) / "home").is_symlink()
    assert (tmp_path / "key").exists()


def test_earlier_attempt_is_refused_once_a_later_has_begun(tmp_path: Path) -> None:
    """Whenever its order arrives; a restored backup counts from the start in a later epoch."""
    first = JobDir(str(tmp_path), JOB, Hold(1, 1))
    os.close(first.prepare(attempt_id=attempt_id(), uid=None, lay_in=lay_in)[0])
    assert not first.is_taken
    prepared(tmp_path, number=2)
    assert first.is_taken
    with pytest.raises(DirectoryRefused, match="later attempt"):
        prepared(tmp_path, number=1)
    prepared(tmp_path, number=1, epoch=2)
    with pytest.raises(DirectoryRefused, match="later attempt"):
        prepared(tmp_path, number=2)

    prepared(tmp_path, number=0, epoch=1)  # a scheduler that does not number its attempts


@root_alone
def test_job_whose_user_changes_gets_at_its_files(tmp_path: Path) -> None:
    """All that the last user had in the directory becomes the next one's, links themselves and not their targets."""
    prepared(tmp_path, uid=USER)
    directory = around(tmp_path) / "dir"
    (directory / "out" / "deep").mkdir(parents=True)
    (directory / "out" / "deep" / "last").write_text("7")
    (directory / "link").symlink_to(tmp_path)
    os.link(directory / "out" / "deep" / "last", directory / "best")
    for path in [*directory.rglob("*")]:
        os.chown(path, USER, USER, follow_symlinks=False)
    prepared(tmp_path, number=2, uid=OTHER)

    assert {path.lstat().st_uid for path in [directory, directory.parent / "home", *directory.rglob("*")]} == {OTHER}
    assert tmp_path.stat().st_uid == 0


@root_alone
def test_name_of_another_jobs_file_gives_nothing(tmp_path: Path) -> None:
    """A second name of a file from elsewhere, or a file of another owner, stays whose it is."""
    theirs, ours = tmp_path / "theirs", tmp_path / "ours"
    theirs.write_text("weights of another job of the same user")
    ours.write_text("a key")
    os.chown(theirs, USER, USER)
    (tmp_path / "dir").mkdir()
    os.link(theirs, tmp_path / "dir" / "mine")
    os.link(ours, tmp_path / "dir" / "also-mine")
    os.chown(tmp_path / "dir", USER, USER)
    descriptor = os.open(tmp_path / "dir", os.O_RDONLY)
    tree_give(descriptor, OTHER)
    os.close(descriptor)

    assert (theirs.stat().st_uid, ours.stat().st_uid) == (USER, 0)
    assert (tmp_path / "dir").stat().st_uid == OTHER


def test_scratch_is_removed_however_deep_and_closed_it_is(tmp_path: Path) -> None:
    """A thousand folders in each other, folders without rights, links that lead out."""
    live, gone = attempt_id(), attempt_id()
    for one in (live, gone):
        os.close(scratch_make(str(tmp_path), one, uid=None))
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("kept")
    place = os.open(tmp_path / "scratch" / gone, os.O_RDONLY)
    for _ in range(1_000):
        os.mkdir("d", dir_fd=place)
        os.close(os.open("f", os.O_CREAT, dir_fd=place))
        os.symlink(tmp_path / "kept", "link", dir_fd=place)
        deeper = os.open("d", os.O_RDONLY, dir_fd=place)
        os.close(place)
        place = deeper
    os.fchmod(place, 0)
    os.close(place)
    assert scratch_left(str(tmp_path), {live}) == [gone]
    scratch_remove(str(tmp_path), [gone], budget_s=60.0)

    assert [path.name for path in (tmp_path / "scratch").iterdir()] == [live]
    assert (tmp_path / "kept" / "file").exists()
