"""Files of jobs by the ``clusterweb`` command: listed, fetched, kept longer, removed."""

import json
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.client import HTTPResponse
from pathlib import Path
from typing import Any

import pytest

from clusterweb.cli import files
from clusterweb.cli.main import main
from scheduler.api.jobs.files import views
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Event, Job
from tests.integration.api.conftest import World
from tests.support.rows.factories import job_make
from tests.support.rows.files import file_write


def test_files_are_removed_after_a_question(
    shop: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> None:
    """With name and size; where nobody can be asked --yes is needed; a job that waits keeps its files."""
    settings.SHARED_DIR = tmp_path
    ended = job_make(shop.vision, owner=shop.users["member"], state=JobState.COMPLETED, directory_bytes=3 * 2**30)
    assert main(["files", "rm", f"J-{ended.number}"]) == 2
    assert "--yes" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: "n")
    assert main(["files", "rm", f"J-{ended.number}"]) == 1
    assert f"J-{ended.number}  train  3.0 GiB" in capsys.readouterr().err
    assert main(["files", "rm", "--yes", f"J-{ended.number}"]) == 0
    assert capsys.readouterr().out == f"J-{ended.number}  its files are being removed\n"
    ended.refresh_from_db()
    assert ended.directory_removal_at is not None

    main(["submit", "job.yaml"])
    number = capsys.readouterr().out.split()[0]
    assert main(["files", "rm", "--yes", number]) == 1
    assert "is queued" in capsys.readouterr().err


def test_chosen_files_are_removed_after_a_question(
    shop: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As by the page: with names and sizes, of an ended job alone; jobs and files are not mixed."""
    job = job_make(shop.vision, owner=shop.users["member"], state=JobState.COMPLETED, directory_bytes=7_000)
    key = f"J-{job.number}"
    for path in ("out/last.pt", "out/best.pt", "J-1", "log.txt"):
        file_write(job, path, b"weights" * 1000)
    assert main(["files", "rm", key, "out", "log.txt"]) == 2
    assert "--yes" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True)
    monkeypatch.setattr("builtins.input", lambda _: "n")
    assert main(["files", "rm", key, "out/", "log.txt"]) == 1
    assert capsys.readouterr().err.splitlines() == [f"{key}  train", "out/", "log.txt  6.8 KiB"]
    assert not Event.objects.filter(job=job, kind="files_removal").exists()

    assert main(["files", "rm", "--yes", key, "out", "./J-1"]) == 0
    assert capsys.readouterr().out == f"{key}  out, J-1: being removed\n"
    job.refresh_from_db()
    assert job.directory_removal_at is None, "only these files go"
    for wrong, code, says in (
        (["out/last.pt"], 1, "out is being deleted already"),
        (["nowhere"], 1, "There is no file 'nowhere'"),
        (["log.txt", "J-1"], 2, "Name jobs, or files of one job: log.txt is no job."),
    ):
        assert main(["files", "rm", "--yes", key, *wrong]) == code
        assert says in capsys.readouterr().err
    file_write(shop.job, "last.pt", b"weights")
    assert main(["files", "rm", "--yes", f"J-{shop.job.number}", "last.pt"]) == 1
    assert "what it needs is not removed" in capsys.readouterr().err


def test_files_are_kept_longer(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """30 days more, until a day, or as long as the queue does; bad values say what is right."""
    ended = datetime.now(UTC) - timedelta(days=1)
    job = job_make(shop.vision, owner=shop.users["member"], state=JobState.COMPLETED, at=ended, directory_bytes=1)
    key = f"J-{job.number}"
    assert job.ended_at is not None
    day = (datetime.now(UTC) + timedelta(days=70)).date()

    assert main(["files", "keep", key]) == 0
    assert Job.objects.get(pk=job.pk).keep_directory_until == job.ended_at + timedelta(days=60)
    assert main(["files", "keep", key, "--until", str(day)]) == 0
    assert f"{key}  its files are kept until {day.year}-" in capsys.readouterr().out
    assert main(["files", "keep", key, "--undo"]) == 0
    assert Job.objects.get(pk=job.pk).keep_directory_until is None
    capsys.readouterr()
    for wrong, says in (
        (("--days", "many"), "argument --days: must be a whole number, such as 4, not 'many'."),
        (("--until", "31.1."), "--until needs a day, such as --until 2030-11-30, not '31.1.'."),
        (("--until", "2001-01-31"), "You gave 2001-01-31."),
    ):
        assert main(["files", "keep", key, *wrong]) != 0
        assert says in capsys.readouterr().err


def test_files_are_listed_and_downloaded(
    shop: World, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file under its own name, a folder as a zip; nothing is overwritten unasked, odd names are found again."""
    key = f"J-{shop.job.number}"
    file_write(shop.job, "out/last.pt", b"weights" * 1000)
    file_write(shop.job, b"out/two\nlines", b"odd")
    assert main(["files", "ls", key]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("out/")
    assert main(["files", "ls", key, "out", "-o", "json"]) == 0
    assert [row["path"] for row in json.loads(capsys.readouterr().out)] == ["out/last.pt", "out/two%0Alines"]

    assert main(["files", "get", key, "out/last.pt"]) == 0
    assert (tmp_path / "last.pt").read_bytes() == b"weights" * 1000
    assert main(["files", "get", key, "out/last.pt"]) == 2
    assert "--force" in capsys.readouterr().err
    assert main(["files", "get", key, "out/two%0Alines", "--to", "odd.txt"]) == 0
    assert (tmp_path / "odd.txt").read_bytes() == b"odd"
    assert main(["files", "get", key, "nowhere"]) == 1
    assert "There is no file 'nowhere'" in capsys.readouterr().err
    assert not list(tmp_path.glob(".*.part"))


@pytest.mark.parametrize("to", ["nowhere/x.pt", "last.pt/x.pt", "/proc/x.pt"])
def test_place_that_cannot_be_written_is_one_sentence(
    shop: World, capsys: pytest.CaptureFixture[str], tmp_path: Path, to: str
) -> None:
    """A folder that is not there, one that is a file, one that takes no files."""
    file_write(shop.job, "last.pt", b"weights")
    (tmp_path / "last.pt").write_bytes(b"mine")

    assert main(["files", "get", f"J-{shop.job.number}", "./last.pt", "--to", to, "--force"]) == 2
    said = capsys.readouterr().err
    assert f"{to} cannot be written: " in said
    assert "Traceback" not in said


def test_path_that_leads_out_is_refused_by_the_server(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """It is no name of a file here either."""
    assert main(["files", "get", f"J-{shop.job.number}", "..", "--force"]) == 1
    assert "is there already" not in capsys.readouterr().err


def test_several_files_and_folders_are_one_zip(
    shop: World, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With their folders in their names; a path that is not there is said, and nothing is left behind."""
    monkeypatch.setattr(views, "Download", lambda request, job, pieces: pieces)  # this server sends no async pieces
    key = f"J-{shop.job.number}"
    for path in ("out/deep/last.pt", "out/a & b.txt", "metrics.json", "other"):
        file_write(shop.job, path, path.encode())
    assert main(["files", "get", key, "out/", "metrics.json", "--to", "out.zip"]) == 0
    with zipfile.ZipFile(tmp_path / "out.zip") as packed:
        assert {name: packed.read(name).decode() for name in packed.namelist()} == {
            path: path for path in ("metrics.json", "out/a & b.txt", "out/deep/last.pt")
        }
    assert main(["files", "get", key, "out/a & b.txt", "other"]) == 0
    assert (tmp_path / f"{key}-selected.zip").is_file()
    capsys.readouterr()

    assert main(["files", "get", key, "out", "nowhere", "--to", "no.zip"]) == 1
    assert "There is no file 'nowhere'" in capsys.readouterr().err
    assert not (tmp_path / "no.zip").exists()


def test_download_goes_on_where_the_connection_was_lost(
    shop: World, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rest is asked for; a file that was written meanwhile comes anew."""
    path = file_write(shop.job, "a.bin", b"0123456789")
    key, read, left = f"J-{shop.job.number}", files._read, [4, 3]

    def lose(answer: HTTPResponse) -> Iterator[bytes]:
        got = b"".join(read(answer))
        yield got[: left[0]] if left else got
        if left:
            left.pop(0)

    monkeypatch.setattr(files, "_read", lose)
    assert main(["files", "get", key, "a.bin"]) == 0
    assert (tmp_path / "a.bin").read_bytes() == b"0123456789"
    assert capsys.readouterr().err.count("going on from there") == 2

    left.append(6)

    def change(answer: HTTPResponse) -> Iterator[bytes]:
        yield from lose(answer)
        path.write_bytes(b"abcdefghijkl")

    monkeypatch.setattr(files, "_read", change)
    assert main(["files", "get", key, "a.bin", "--force"]) == 0
    assert (tmp_path / "a.bin").read_bytes() == b"abcdefghijkl"
