"""Logs of jobs: quick from the end, contiguous from an offset, and nothing but log files is ever opened."""

import os
import time
from pathlib import Path

import pytest
from django.conf import LazySettings

from scheduler.models import Attempt
from scheduler.selectors.jobs.logs import LOG_EMPTY, LOG_GONE, NO_LOG_YET, log_from, log_open, log_tail
from tests.support.rows.factories import AT, ulid_make

LINE = b"step 000123 loss 1.2345 rate 3.42 steps/s of the training job\n"


@pytest.fixture
def attempt(tmp_path: Path, settings: LazySettings) -> Attempt:
    """An attempt that has not ended, with an empty directory."""
    settings.SHARED_DIR = tmp_path
    attempt = Attempt(id=ulid_make(), created_at=AT)
    (tmp_path / "attempts" / attempt.pk).mkdir(parents=True)
    return attempt


def folder(attempt: Attempt, settings: LazySettings) -> Path:
    """Return the attempt's directory."""
    return Path(settings.SHARED_DIR) / "attempts" / attempt.pk


def write(attempt: Attempt, settings: LazySettings, *segments: tuple[int, bytes]) -> None:
    """Write segments by their first offset."""
    for start, content in segments:
        (folder(attempt, settings) / f"log.{start:020d}").write_bytes(content)


def test_tail_gives_the_last_lines(attempt: Attempt, settings: LazySettings) -> None:
    """A tail begins at a line and ends where the log ends."""
    write(attempt, settings, (0, b"one\ntwo\nthree\nfour\n"))

    chunk = log_tail(attempt, lines=2)

    assert (chunk.text, chunk.start_offset, chunk.end_offset, chunk.truncated) == ("three\nfour\n", 8, 19, True)


def test_tail_counts_an_unfinished_last_line(attempt: Attempt, settings: LazySettings) -> None:
    """The line that the job is writing is a line."""
    write(attempt, settings, (0, b"one\ntwo\nthr"))

    assert log_tail(attempt, lines=2).text == "two\nthr"


def test_tail_of_a_short_log_is_the_whole_log(attempt: Attempt, settings: LazySettings) -> None:
    """Fewer lines than asked for are all of them."""
    write(attempt, settings, (0, b"one\ntwo\n"))
    chunk = log_tail(attempt, lines=1000)

    assert (chunk.text, chunk.truncated) == ("one\ntwo\n", False)


def test_reading_goes_over_segment_borders(attempt: Attempt, settings: LazySettings) -> None:
    """Segments are one contiguous log."""
    write(attempt, settings, (0, b"one\ntw"), (6, b"o\nthree\n"))

    assert log_tail(attempt, lines=2).text == "two\nthree\n"
    assert log_from(attempt, 4, most_bytes=100).text == "two\nthree\n"
    assert log_from(attempt, 4, most_bytes=3).text == "two"


def test_dropped_segments_are_skipped(attempt: Attempt, settings: LazySettings) -> None:
    """When the oldest part was dropped, reading begins at the first kept byte and says so."""
    write(attempt, settings, (1000, b"late\n"))
    chunk = log_from(attempt, 10, most_bytes=100)

    assert (chunk.text, chunk.start_offset, chunk.truncated) == ("late\n", 1000, True)


def test_only_the_newest_contiguous_part_is_shown(attempt: Attempt, settings: LazySettings) -> None:
    """What lies before a hole is as good as dropped."""
    write(attempt, settings, (0, b"old\n"), (100, b"new\n"))

    assert log_tail(attempt, lines=10).text == "new\n"


def test_following_a_log_gives_every_byte_once(attempt: Attempt, settings: LazySettings) -> None:
    """Reading on from ``end_offset`` gives the whole log, also where a chunk ends inside a character."""
    text = "Größe ½ 漢字 🚀\n" * 50
    write(attempt, settings, (0, text.encode()))
    got, offset = "", 0
    while chunk := log_from(attempt, offset, most_bytes=7):
        if chunk.end_offset == offset:
            break
        got, offset = got + chunk.text, chunk.end_offset

    assert got == text


def test_bytes_that_are_no_text_are_replaced(attempt: Attempt, settings: LazySettings) -> None:
    """A job may print anything."""
    write(attempt, settings, (0, b"ok \xff\xfe\x00 end\n"))

    assert log_tail(attempt).text == "ok \N{REPLACEMENT CHARACTER}\N{REPLACEMENT CHARACTER}\x00 end\n"
    assert log_from(attempt, 0, most_bytes=5).end_offset > 0


def test_offset_beyond_the_end_reads_nothing(attempt: Attempt, settings: LazySettings) -> None:
    """A follower that is up to date gets an empty chunk at the end."""
    write(attempt, settings, (0, b"one\n"))
    chunk = log_from(attempt, 10**12, most_bytes=100)

    assert (chunk.text, chunk.start_offset, chunk.end_offset, chunk.reason) == ("", 4, 4, "")


def test_nothing_to_read_has_a_reason(attempt: Attempt, settings: LazySettings) -> None:
    """An empty log says why: not yet, empty, or gone."""
    not_yet = log_tail(attempt).reason
    attempt.ended_at = AT
    empty = log_tail(attempt).reason
    folder(attempt, settings).rmdir()

    assert (not_yet, empty) == (NO_LOG_YET, LOG_EMPTY)
    assert (log_tail(attempt).reason, log_from(attempt, 0, most_bytes=9).reason) == (LOG_GONE, LOG_GONE)


@pytest.mark.parametrize("kind", ["symlink", "fifo", "directory", "socket name"])
def test_only_regular_files_are_opened(attempt: Attempt, settings: LazySettings, tmp_path: Path, kind: str) -> None:
    """A job that puts something else in a segment's place gains nothing and blocks nobody."""
    secret = tmp_path / "secret"
    secret.write_text("canary\n")
    place = folder(attempt, settings) / f"log.{0:020d}"
    if kind == "symlink":
        place.symlink_to(secret)
    elif kind == "fifo":
        os.mkfifo(place)
    elif kind == "directory":
        place.mkdir()
    else:
        (folder(attempt, settings) / "log.00").write_text("canary\n")

    assert log_tail(attempt).text == ""
    assert log_from(attempt, 0, most_bytes=100).text == ""


def test_directory_of_an_attempt_is_never_a_symlink(attempt: Attempt, settings: LazySettings, tmp_path: Path) -> None:
    """A link in place of the attempt's directory is not followed."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / f"log.{0:020d}").write_text("canary\n")
    folder(attempt, settings).rmdir()
    folder(attempt, settings).symlink_to(elsewhere)

    assert log_tail(attempt).text == ""


@pytest.mark.parametrize("name", ["..", "../../etc", "A" * 25, "a" * 26, "01ARZ3NDEKTSV4RRFFQ69G5FA\n", ""])
def test_id_that_is_no_id_opens_nothing(attempt: Attempt, name: str) -> None:
    """Names are made of ids alone."""
    attempt.pk = name

    assert log_tail(attempt).text == ""


def test_many_files_do_not_use_up_descriptors(attempt: Attempt, settings: LazySettings) -> None:
    """A directory full of segment names costs a bounded number of open files, and all are closed again."""
    for start in range(3000):
        (folder(attempt, settings) / f"log.{start:020d}").write_bytes(b"\n")
    before = len(os.listdir("/proc/self/fd"))
    chunk = log_tail(attempt, lines=10)

    assert chunk.text == "\n" * 10
    assert len(os.listdir("/proc/self/fd")) == before


def test_gigabyte_log_opens_at_its_last_lines_at_once(attempt: Attempt, settings: LazySettings) -> None:
    """The last 1,000 lines of 1 GB take well under a second (the file is sparse before its end)."""
    place = folder(attempt, settings) / f"log.{0:020d}"
    with place.open("wb") as file:
        file.truncate(10**9 - 2000 * len(LINE))
        file.seek(0, os.SEEK_END)
        file.write(LINE * 2000)
    started = time.process_time()
    chunk = log_tail(attempt, lines=1000)

    assert time.process_time() - started < 0.5
    assert chunk.text == (LINE * 1000).decode()
    assert chunk.end_offset == 10**9


def test_tail_without_line_ends_is_bounded(attempt: Attempt, settings: LazySettings) -> None:
    """A flood without a single line end gives a bounded tail."""
    write(attempt, settings, (0, b"x" * (5 * 2**20)))

    assert len(log_tail(attempt).text) == 4 * 2**20


def test_download_gives_the_whole_kept_log(attempt: Attempt, settings: LazySettings) -> None:
    """All blocks of the open log are its kept bytes."""
    content = LINE * 5000
    write(attempt, settings, (0, content[:100_000]), (100_000, content[100_000:]))
    with log_open(attempt) as log:
        assert b"".join(log.pieces()) == content
