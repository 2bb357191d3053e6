"""Files of jobs: any name is shown and found again, and nothing but regular files of the job is ever opened."""

import io
import os
import stat
import zipfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from agents.protocol.signing import SIMULATED as SIMULATED_AGENT
from scheduler.core.model.errors import NotFound
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job
from scheduler.selectors.files import archive, survey
from scheduler.selectors.files.archive import LEFT_OUT, zip_choice, zip_pieces
from scheduler.selectors.files.listing import folder_list
from scheduler.selectors.files.names import MOST_DEPTH, name_shown, path_parts, path_shown
from scheduler.selectors.files.opening import GONE, NOT_STARTED, NOT_THERE, SIMULATED, job_files
from scheduler.selectors.files.survey import walk
from tests.support.rows.factories import AT, job_make, queue_make, server_make, ulid_make
from tests.support.rows.files import file_write, job_directory

CANARY = b"canary: not the job's"
NAMES = st.binary(min_size=1, max_size=40).filter(
    lambda name: name not in (b".", b"..") and b"/" not in name and b"\0" not in name
)


@pytest.fixture
def job(tmp_path: Path, settings: Any) -> Job:  # pytest-django's settings take any name
    """A job that has begun, and a file beside its directory that is none of its business."""
    settings.SHARED_DIR = tmp_path / "shared"
    (tmp_path / "canary").write_bytes(CANARY)
    return Job(id=ulid_make(), first_started_at=AT)


def read(job: Job, path: str) -> bytes:
    """Return the content of a file by its shown path."""
    with job_files(job) as files, files.file(path_parts(path)) as file:
        return file.readall()


def zipped(job: Job, *paths: str) -> dict[str, bytes]:
    """Return what is in the zip of these files and folders; without any, of all."""
    return unpacked(zip_pieces(job, zip_choice(job, paths)))


def unpacked(pieces: Iterable[bytes]) -> dict[str, bytes]:
    """Return what is in a zip, in which each name stands once."""
    packed = zipfile.ZipFile(io.BytesIO(b"".join(pieces)))
    assert packed.testzip() is None
    assert len(packed.namelist()) == len(set(packed.namelist()))
    return {name: packed.read(name) for name in packed.namelist()}


@given(NAMES)
@example(b"a%0Ab")
@example(b"%\x0a")
@example(b"%4\x31")
@example(b"..\\..\\evil.exe")
@example("\u202egpj.exe".encode())
@example(b"\xff\xfe")
def test_any_name_is_one_line_and_found_again(name: bytes) -> None:
    """Two names are never shown alike, and what is shown leads nowhere else."""
    shown = name_shown(os.fsdecode(name))

    assert shown.isprintable()
    assert "\\" not in shown
    assert tuple(map(os.fsencode, path_parts(shown))) == (name,)
    assert path_shown(path_parts(f"{shown}/{shown}")) == f"{shown}/{shown}"


@pytest.mark.parametrize(
    "path", ["..", "a/../b", "a//b", "./a", "%2E%2E", "a%2Fb", "a%00", "a/" * (MOST_DEPTH + 1) + "b", "x" * 40_000]
)
def test_paths_that_no_file_has(path: str) -> None:
    """None of them reaches the file system."""
    with pytest.raises(NotFound):
        path_parts(path)


def test_a_folder_is_listed_part_by_part(job: Job) -> None:
    """In order of names, each once; kinds, sizes and times are told."""
    for number in range(5):
        file_write(job, f"out/{number}.txt", b"x" * number)
    (job_directory(job) / "out" / "link").symlink_to("0.txt")
    first = folder_list(job, "out", limit=4)
    second = folder_list(job, "out/", limit=4, after=first["next"] or "")

    assert [row["name"] for row in (*first["results"], *second["results"])] == [
        *(f"{number}.txt" for number in range(5)),
        "link",
    ]
    assert first["results"][3]["size_bytes"] == 3
    assert [row["kind"] for row in second["results"]] == ["file", "link"]
    assert second["next"] is None
    assert [row["kind"] for row in folder_list(job, limit=4)["results"]] == ["folder"]


def test_odd_names_are_listed_read_and_packed(job: Job) -> None:
    """Line ends, bytes that are no text, marks of direction, the longest name there is."""
    odd = [b"two\nlines", b"\xff\xfe.bin", "\u202egpj.exe".encode(), b"n" * 255, b"..\\..\\up", b" ", b"<b>&amp;"]
    for name in odd:
        file_write(job, name, name)
    paths = [row["path"] for row in folder_list(job, limit=100)["results"]]

    assert len(set(paths)) == len(odd)
    assert {read(job, path) for path in paths} == set(odd)
    assert zipped(job) == {path: read(job, path) for path in paths}
    assert "%5C" in next(path for path in paths if path.endswith("up"))


@pytest.mark.django_db
def test_links_lead_nowhere(job: Job, tmp_path: Path) -> None:
    """Neither as the file, nor as a folder on the way, nor as the directory of the job itself."""
    directory = job_directory(job)
    (directory / "file").symlink_to(tmp_path / "canary")
    (directory / "folder").symlink_to(tmp_path)
    for path in ("file", "folder/canary", "folder"):
        with pytest.raises(NotFound, match="link"):
            read(job, path)
    packed = zipped(job)

    assert set(packed) == {LEFT_OUT}
    assert b"file: it is a link" in packed[LEFT_OUT]
    with pytest.raises(NotFound):
        folder_list(job, "folder", limit=10)

    directory.rename(tmp_path / "aside")
    directory.symlink_to(tmp_path)
    assert folder_list(job, limit=10)["results"] == []
    with pytest.raises(NotFound):
        read(job, "canary")


def test_a_file_that_turns_into_a_link_while_it_is_opened_is_not_followed(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The look before and the open are two moments; a job may act between them."""
    mine = file_write(job, "last.pt", b"weights")
    look = os.stat

    def look_then_change(path: Any, **more: Any) -> os.stat_result:
        found = look(path, **more)
        if path == "last.pt" and not mine.is_symlink():
            mine.unlink()
            mine.symlink_to(tmp_path / "canary")
        return found

    monkeypatch.setattr(os, "stat", look_then_change)
    with pytest.raises(NotFound, match="link"):
        read(job, "last.pt")


@pytest.fixture
def odd_kinds(job: Job) -> list[str]:
    """A FIFO, a socket and, where we may make one, a device."""
    directory = job_directory(job)
    os.mkfifo(directory / "fifo")
    os.mknod(directory / "socket", stat.S_IFSOCK | 0o600)
    try:
        os.mknod(directory / "device", stat.S_IFCHR | 0o600, os.makedev(1, 5))  # endless zeros
    except PermissionError:
        return ["fifo", "socket"]
    return ["device", "fifo", "socket"]


def test_what_is_no_file_is_shown_and_never_opened(job: Job, odd_kinds: list[str]) -> None:
    """Opening a FIFO would wait for ever, reading a device might never end."""
    rows = folder_list(job, limit=10)["results"]

    assert sorted(row["name"] for row in rows) == odd_kinds
    assert {row["kind"] for row in rows} == {"other"}
    for name in odd_kinds:
        with pytest.raises(NotFound, match="no regular file"):
            read(job, name)
    assert set(zipped(job)) == {LEFT_OUT}


def test_a_fifo_that_takes_the_place_of_a_file_does_not_make_us_wait(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is opened without waiting, and looked at again before it is read."""
    mine = file_write(job, "last.pt", b"weights")
    about = os.stat(mine)
    mine.unlink()
    os.mkfifo(mine)
    monkeypatch.setattr(os, "stat", lambda path, **more: about)

    with pytest.raises(NotFound, match="no regular file"):
        read(job, "last.pt")


def test_a_file_of_another_user_is_not_read(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hard link to a file of ours would else hand it out, as the web process may read more than the job."""
    mine = file_write(job, "mine", b"weights")
    if os.geteuid() == 0:
        os.chown(mine, 12_345, 12_345)
    else:  # we cannot give it away, so the directory is made to look like another's
        fstat = os.fstat
        monkeypatch.setattr(os, "fstat", lambda fd: _of_another(fstat(fd)))

    with pytest.raises(NotFound, match="another user"):
        read(job, "mine")


def _of_another(status: os.stat_result) -> os.stat_result:
    fields = list(status)
    fields[4] += 1
    return os.stat_result(fields)


@pytest.mark.django_db
def test_what_is_not_there_says_why(job: Job) -> None:
    """Each in a sentence for the page."""
    never = Job(id=ulid_make())
    removed = Job(id=ulid_make(), first_started_at=AT, directory_removal_at=AT)

    assert [folder_list(one, limit=1)["reason"] for one in (never, removed, job)] == [NOT_STARTED, GONE, NOT_THERE]
    simulated = job_make(
        queue_make("vision"), server=server_make(agent_version=SIMULATED_AGENT), state=JobState.RUNNING
    )
    assert folder_list(simulated, limit=1)["reason"] == SIMULATED  # before a directory of any job is made, and after
    file_write(job, "a")
    assert folder_list(simulated, limit=1)["reason"] == SIMULATED
    with pytest.raises(NotFound, match="There is no file 'b'"):
        read(job, "b")


def test_a_walk_keeps_its_limits(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Depth and names are bounded; what is beyond is said, and descriptors are given back."""
    directory = os.open(job_directory(job), os.O_RDONLY)
    for _ in range(MOST_DEPTH + 6):
        os.mkdir("d", dir_fd=directory)
        inner = os.open("d", os.O_RDONLY, dir_fd=directory)
        os.close(directory)
        directory = inner
    os.close(directory)
    for number in range(20):
        file_write(job, f"many/{number:02}")
    monkeypatch.setattr(survey, "NAMES_LISTED", 10)
    opened = len(os.listdir("/proc/self/fd"))
    with job_files(job) as files:
        found = list(walk(files))
        stopped = walk(files)
        for _ in range(40):
            next(stopped)
        stopped.close()
        counted = survey.survey(files, most=1000)

    assert max(len(one.parts) for one in found) == MOST_DEPTH
    assert [one.parts[-1] for one in found if one.closed] == ["d", "many"]
    assert not counted.is_whole
    assert len(os.listdir("/proc/self/fd")) == opened


def test_sums_of_folders_hold_all_levels(job: Job) -> None:
    """And the file that was written last is known."""
    file_write(job, "a", b"1")
    file_write(job, "out/b", b"22")
    newest = file_write(job, "out/deep/c", b"333")
    os.utime(newest, (2_000_000_000, 2_000_000_000))
    with job_files(job) as files:
        found = survey.survey(files, most=100)
        cut = survey.survey(files, most=2)

    assert {"/".join(parts): (one.files, one.num_bytes) for parts, one in found.folders.items()} == {
        "": (3, 6),
        "out": (2, 5),
        "out/deep": (1, 3),
    }
    assert found.newest is not None
    assert (found.newest.parts, found.newest.changed_s) == (("out", "deep", "c"), 2_000_000_000)
    assert found.is_whole
    assert not cut.is_whole


def test_a_zip_is_made_piece_by_piece(job: Job) -> None:
    """However large a file is, no piece is much larger than what is read at once."""
    sparse = file_write(job, "sparse.bin")
    os.truncate(sparse, 40 * 2**20)
    pieces = [len(piece) for piece in zip_pieces(job, [()])]

    assert sum(pieces) > 40 * 2**20
    assert max(pieces) < archive.PIECE_BYTES + 65_536
    assert zipped(job)["sparse.bin"] == bytes(40 * 2**20)


def test_files_that_change_while_they_are_packed(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that grows is cut where it was, one that shrinks or goes away is named; the archive stays whole."""
    monkeypatch.setattr(archive, "PIECE_BYTES", 4)
    grows, shrinks, goes = (file_write(job, name, b"12345678") for name in ("1-grows", "2-shrinks", "3-goes"))
    pieces = zip_pieces(job, [()])
    got = [next(pieces)]
    grows.write_bytes(b"12345678more")
    shrinks.write_bytes(b"123")
    goes.unlink()
    packed = zipfile.ZipFile(io.BytesIO(b"".join([*got, *pieces])))

    assert packed.testzip() is None
    assert packed.read("1-grows") == b"12345678"
    assert set(packed.namelist()) <= {"1-grows", "2-shrinks", LEFT_OUT}


def test_a_file_that_shrinks_in_the_middle_is_named(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """What there was of it is in the archive, which says that it is a part."""
    monkeypatch.setattr(archive, "PIECE_BYTES", 4)
    file = file_write(job, "a", b"12345678")
    pieces = zip_pieces(job, [()])
    got = [next(pieces)]
    file.write_bytes(b"12")
    packed = zipfile.ZipFile(io.BytesIO(b"".join([*got, *pieces])))

    assert packed.testzip() is None
    assert packed.read("a") == b"1234"
    assert "a: only a part" in packed.read(LEFT_OUT).decode()


def test_a_zip_of_a_folder_has_names_from_there_on(job: Job) -> None:
    """A file of the job with the name of our list stays beside it."""
    file_write(job, "out/deep/c", b"333")
    file_write(job, f"out/{LEFT_OUT}", b"own")
    (job_directory(job) / "out" / "link").symlink_to("deep")

    assert zipped(job, "out") == {
        "deep/c": b"333",
        LEFT_OUT: b"own",
        f"_{LEFT_OUT}": b"Not in this archive:\nout/link: it is a link\n",
    }


def test_a_zip_of_several_keeps_their_folders_and_holds_each_file_once(job: Job) -> None:
    """What is named twice or lies in a chosen folder is no second copy; a name that only begins alike is another."""
    for path in ("out/deep/c", "out/b", "out.txt", "pictures/1.png", "a"):
        file_write(job, path, path.encode())

    assert zipped(job, "out/deep/c", "out/", "out.txt", "out/deep", "out", "a") == {
        path: path.encode() for path in ("a", "out/b", "out/deep/c", "out.txt")
    }
    assert zipped(job, "out/deep", "pictures") == {path: path.encode() for path in ("out/deep/c", "pictures/1.png")}
    assert zipped(job, "out/deep/c") == {"out/deep/c": b"out/deep/c"}
    assert zipped(job, "a", "") == zipped(job)


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("../canary", "no file"),
        ("out/%2E%2E/%2E%2E/canary", "no file"),
        ("nowhere", "no file 'nowhere'"),
        ("nowhere/at/all", "no folder 'nowhere'"),
        ("link", "link"),
        ("folder/canary", "link"),
        ("fifo", "no regular file"),
    ],
)
def test_each_path_of_several_is_looked_at(job: Job, tmp_path: Path, path: str, why: str) -> None:
    """One that leads out, or to nothing that may be read, is said before the first byte, also in a chosen folder."""
    file_write(job, "out/a", b"1")
    directory = job_directory(job)
    (directory / "link").symlink_to(tmp_path / "canary")
    (directory / "folder").symlink_to(tmp_path)
    os.mkfifo(directory / "fifo")

    for chosen in ((path,), ("out", path), (path, "out/a"), ("", path)):
        with pytest.raises(NotFound, match=why):
            zip_choice(job, chosen)


def test_what_goes_away_before_its_turn_is_named(job: Job, tmp_path: Path) -> None:
    """Chosen files and folders that are gone, or links by then, are left out; the others arrive."""
    for path in ("a", "b", "goes/x", "turns"):
        file_write(job, path, b"1")
    chosen = zip_choice(job, ("a", "goes", "turns", "b"))
    directory = job_directory(job)
    (directory / "goes" / "x").unlink()
    (directory / "goes").rmdir()
    (directory / "turns").unlink()
    (directory / "turns").symlink_to(tmp_path / "canary")
    packed = unpacked(zip_pieces(job, chosen))

    assert set(packed) == {"a", "b", LEFT_OUT}
    assert b"goes: There is no file 'goes'." in packed[LEFT_OUT]
    assert b"turns: it is a link" in packed[LEFT_OUT]
