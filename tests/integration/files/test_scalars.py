"""Scalars of a job's files: read as their writers meant them, on and on, within bounds, and damaged files named."""

import json
import os
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboardX import SummaryWriter

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job
from scheduler.selectors.files import scalars, series
from scheduler.selectors.files.event_records import BrokenRecord, records, take_event
from scheduler.selectors.files.scalars import Scalars, scalars_of
from scheduler.selectors.files.series import Series, Tags
from scheduler.selectors.files.survey import job_survey
from tests.support.rows.factories import AT, ulid_make
from tests.support.rows.files import file_write, job_directory


@pytest.fixture
def job(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Job:  # pytest-django's settings
    """A job that has begun; however slow this machine is, a look reads to the end."""
    settings.SHARED_DIR = tmp_path / "shared"
    monkeypatch.setattr(scalars, "LOOK_S", 1e9)
    job = Job(id=ulid_make(), first_started_at=AT)
    job_directory(job)
    return job


def look(job: Job) -> Scalars:
    """Return what a page finds."""
    return scalars_of(job, job_survey(job, most=1000))


def curves(found: Scalars) -> dict[tuple[str, str], list[tuple[float, float]]]:
    """Return steps and values by run and name."""
    return {
        (curve.run, curve.tag): [pair for part in curve.parts for pair in zip(*part.points(), strict=True)]
        for curve in found.curves
    }


def events_write(job: Job, run: str, begin: int, end: int) -> Path:
    """Write scalars and a picture by another library; return the file."""
    folder, suffix = job_directory(job) / run, f".{begin:04}"
    with SummaryWriter(str(folder), filename_suffix=suffix) as writer:
        for step in range(begin, end):
            writer.add_scalar("loss", 1 / (step + 1), step)
            writer.add_scalar("val/top1", step / 100, step)
        writer.add_text("note", "x" * 1000, end)
        writer.add_histogram("weights", list(range(100)), end)
    return next(folder.glob(f"*{suffix}"))


def test_event_files_are_read_as_written(job: Job) -> None:
    """By a writer that is not ours; what is no scalar is passed over."""
    events_write(job, "runs/a", 0, 40)
    found = look(job)

    assert set(curves(found)) == {("runs/a", "loss"), ("runs/a", "val/top1")}
    steps, values = zip(*curves(found)["runs/a", "loss"], strict=True)
    assert steps == tuple(range(40))
    assert values == pytest.approx([1 / (step + 1) for step in range(40)])
    assert (found.files, found.notes) == (1, [])


def test_a_run_that_went_on_is_one_curve(job: Job) -> None:
    """Each attempt begins a file of its own in the same folder; another folder is another run."""
    events_write(job, "runs/a", 0, 5)
    events_write(job, "runs/a", 3, 8)
    events_write(job, "runs/b", 0, 2)
    steps = {key: [step for step, _ in points] for key, points in curves(look(job)).items()}

    assert steps["runs/a", "loss"] == [0, 1, 2, 3, 4, 3, 4, 5, 6, 7]
    assert steps["runs/b", "loss"] == [0, 1]


def test_a_file_that_grows_is_read_on(job: Job) -> None:
    """Also from the middle of a record, and nothing twice."""
    path = events_write(job, "runs", 0, 30)
    whole = path.read_bytes()
    seen = []
    for cut in (5, 200, 201, 900, len(whole)):
        path.write_bytes(whole[:cut])  # in place: the same file
        seen.append(len(curves(look(job)).get(("runs", "loss"), [])))

    assert seen == sorted(seen)
    assert seen[0] == 0
    assert seen[-1] == 30


def test_what_was_read_stays_as_it_is_while_another_look_reads_on(job: Job) -> None:
    """Two browsers look at one job; what one of them draws must not change under it."""
    path = file_write(job, "metrics.jsonl", b'{"step": 1, "loss": 2.0}\n')
    first = look(job)
    with path.open("ab") as file:
        file.write(b'{"step": 2, "loss": 1.0, "lr": 0.1}\n')

    assert set(curves(look(job))) == {("", "loss"), ("", "lr")}
    assert curves(first) == {("", "loss"): [(1.0, 2.0)]}


def test_names_that_are_no_text_can_be_drawn_beside_others(job: Job) -> None:
    """Bytes that are no UTF-8 in an event file, and half a pair of surrogates in JSON: pages hold neither."""
    tag = b"\x0a\x02\xff\xfe\x15" + struct.pack("<f", 1.0)
    summary = b"\x0a" + bytes([len(tag)]) + tag
    found = Tags()
    take_event(b"\x2a" + bytes([len(summary)]) + summary, found)
    assert list(found.by_name) == ["\ufffd\ufffd"]
    file_write(job, "metrics.jsonl", b'{"step": 1, "\\ud800": 2.0, "loss": 1.0}\n')

    assert [curve.tag for curve in look(job).curves] == ["?", "loss"]


def test_a_damaged_file_is_named_and_what_came_before_is_drawn(job: Job) -> None:
    """The others are drawn whole."""
    path = events_write(job, "runs/bad", 0, 30)
    events_write(job, "runs/good", 0, 30)
    content = bytearray(path.read_bytes())
    content[len(content) // 5] ^= 1
    path.write_bytes(content)
    found = look(job)

    assert 0 < len(curves(found)["runs/bad", "loss"]) < 30
    assert len(curves(found)["runs/good", "loss"]) == 30
    assert len(found.notes) == 1
    assert found.notes[0].startswith(f"runs/bad/{path.name} is damaged")


def test_tables_and_lines_are_read_over_their_step(job: Job) -> None:
    """As Lightning writes a table, with holes, and as trainers write JSON lines."""
    file_write(job, "logs/metrics.csv", b"epoch,step,train_loss,val_acc\r\n0,10,0.5,\r\n0,20,0.25,0.75\r\n")
    file_write(job, "metrics.jsonl", b'{"step": 1, "loss": 2.0, "eval": {"acc": 0.5}}\n{"step": 2, "loss": NaN}\n{"st')
    found = look(job)

    assert curves(found) == {
        ("logs", "train_loss"): [(10, 0.5), (20, 0.25)],
        ("logs", "val_acc"): [(20, 0.75)],
        ("", "loss"): [(1, 2.0)],
        ("", "eval/acc"): [(1, 0.5)],
    }
    assert found.notes == []
    assert next(curve for curve in found.curves if curve.tag == "loss").parts[0].odd == 1


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.csv", b"step,loss\n1,4.0\n2,2.0"),
        ("metrics.jsonl", b'{"step": 1, "loss": 4.0}\n{"step": 2, "loss": 2.0}'),
    ],
)
def test_last_row_without_a_line_end_counts_once_its_job_has_ended(job: Job, name: str, content: bytes) -> None:
    """Until then it may be half of a row; it is read once, however often one looks."""
    file_write(job, name, content)
    while_it_runs = curves(look(job))
    job.state = JobState.COMPLETED
    look(job)
    found = look(job)

    assert while_it_runs == {("", "loss"): [(1.0, 4.0)]}
    assert curves(found) == {("", "loss"): [(1.0, 4.0), (2.0, 2.0)]}
    assert found.notes == []


def test_half_a_row_at_the_end_is_no_damage(job: Job) -> None:
    """A job that was killed while it wrote leaves one."""
    job.state = JobState.FAILED
    file_write(job, "metrics.csv", b"step,loss\n1,4.0\n2")
    found = look(job)

    assert curves(found) == {("", "loss"): [(1.0, 4.0)]}
    assert found.notes == []


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.csv", b"a,b\n1,2\n3\n"),
        ("metrics.jsonl", b'{"a": 1}\n[1, 2]\n'),
        ("metrics.jsonl", b'{"a": 1}\n' + b"[" * 50_000 + b"\n"),
        ("metrics.jsonl", b'{"a": 1}\n' + b"x" * 200_000),
        ("metrics.csv", b"\x00\xff" * 100_000),
        ("events.out.tfevents.1", b"no events, at all, in this file"),
        ("events.out.tfevents.1", struct.pack("<Q", 2**63) + b"\0" * 100),
    ],
)
def test_what_is_none_is_named(job: Job, name: str, content: bytes) -> None:
    """And never an error of the page."""
    file_write(job, name, content)

    assert [note.partition(" is damaged")[0] for note in look(job).notes] == [name]


def test_a_look_reads_so_much_and_the_next_one_goes_on(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a job wrote, a page waits for a part of it alone."""
    monkeypatch.setattr(scalars, "PIECE_BYTES", 100_000)
    monkeypatch.setattr(scalars, "LOOK_BYTES", 1_000_000)
    line = b'{"step": %7d, "loss": 0.5}\n'
    file_write(job, "metrics.jsonl", b"".join(line % number for number in range(100_000)))
    counts = []
    for _ in range(5):
        found = look(job)
        counts.append(found.curves[0].parts[0].seen)

    assert 30_000 < counts[0] < 40_000
    assert counts[-1] == 100_000
    assert counts == sorted(counts)
    assert len(curves(found)["", "loss"]) <= 2 * series.MOST_POINTS + 2
    assert curves(found)["", "loss"][-1] == (99_999, 0.5)


def test_another_file_of_that_name_is_read_anew(job: Job) -> None:
    """One that was written again, or cut."""
    path = file_write(job, "metrics.jsonl", b'{"a": 1}\n{"a": 2}\n')
    look(job)
    path.write_bytes(b'{"b": 1}\n')
    cut = curves(look(job))
    path.unlink()
    file_write(job, "aside", b"")
    file_write(job, "metrics.jsonl", b'{"c": 1}\n' * 10)

    assert set(cut) == {("", "b")}
    assert set(curves(look(job))) == {("", "c")}


def test_names_and_files_are_bounded(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is beyond is said; links are not followed."""
    monkeypatch.setattr(scalars, "MOST_FILES", 3)
    file_write(job, "metrics.jsonl", json.dumps({f"v{number}": number for number in range(500)}).encode() + b"\n")
    for number in range(4):
        os.utime(file_write(job, f"{number}/metrics.csv", b"a\n1\n"), (number, number))
    (job_directory(job) / "metrics.csv").symlink_to("0/metrics.csv")
    found = look(job)

    assert len({curve.tag for curve in found.curves}) == series.MOST_TAGS + 1
    assert "2 older files are not looked at." in found.notes
    assert any("more series" in note for note in found.notes)


@given(st.binary(max_size=300))
@settings(max_examples=300)
def test_no_bytes_break_the_reader(data: bytes) -> None:
    """It says that they are broken, or passes over them."""
    tags = Tags()
    try:
        for body, size in records(data):
            assert size >= 16
            take_event(body, tags)
        take_event(data, tags)
    except BrokenRecord:
        pass


@given(st.lists(st.floats(width=32), max_size=5_000))
@settings(max_examples=20)
def test_long_series_are_thinned_in_order_with_the_newest(values: list[float]) -> None:
    """However many there are."""
    made, finite = Series(), []
    for step, value in enumerate(values):
        made.add(step, value)
        if abs(value) < float("inf"):
            finite.append((step, value))
    steps, kept = made.points()

    assert len(steps) <= 2 * series.MOST_POINTS + 2
    assert set(zip(steps, kept, strict=True)) <= set(finite)
    assert list(steps) == sorted(steps)
    assert not finite or (steps[-1], kept[-1]) == finite[-1]
