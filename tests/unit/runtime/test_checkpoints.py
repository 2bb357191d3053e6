"""Checkpoints: whole or not used, the newest two kept, no disk ends a training."""

import json
from pathlib import Path

import pytest

from agents.runtime import Run
from tests.support.agents.runtime_job import JobFolder


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return JobFolder.create(tmp_path / "attempt")


def train(job: JobFolder, *, steps: int, every: int = 1) -> list[Path]:
    """Train with a checkpoint every few steps and return the files, oldest first."""
    run = Run(total_steps=steps, checkpoint_every_steps=every, environ=job.environ())
    run.on_checkpoint(lambda: {"step_seen": run.step})
    list(run.steps())
    return job.checkpoints()


def resume(tmp_path: Path, checkpoint: Path) -> tuple[Run, object, JobFolder]:
    folder = JobFolder.create(tmp_path / "resumed")
    run = Run(total_steps=100, environ=folder.environ(resume=checkpoint))
    return run, run.resume(), folder


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def test_newest_two_checkpoints_stay(job: JobFolder) -> None:
    """Disk use does not grow with the length of the training, and no temporary file is left."""
    names = [path.name[:11] for path in train(job, steps=6)]

    assert names == ["step-000005", "step-000006"]


def test_checkpoint_is_reported_after_it_is_in_place(job: JobFolder) -> None:
    """A name in a report is that of a whole file; its content says format, step and state."""
    newest = train(job, steps=6)[-1]

    assert job.reports("checkpoint")[-1] == {"event": "checkpoint", "name": newest.name, "step": 6}
    assert json.loads(newest.read_bytes()) == {"format": 1, "step": 6, "state": {"step_seen": 6}}


@pytest.mark.parametrize("harm", ["flipped bit", "cut short", "empty", "gone"])
def test_damaged_checkpoint_is_passed_over_for_the_one_before(
    job: JobFolder, tmp_path: Path, harm: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """A torn file is never loaded; the job loses a little work in place of all."""
    older, newest = train(job, steps=6)
    if harm == "flipped bit":
        damage(newest)
    elif harm == "gone":
        newest.unlink()
    else:
        newest.write_bytes(b"" if harm == "empty" else newest.read_bytes()[:-1])

    run, state, folder = resume(tmp_path, newest)

    assert state == {"step_seen": 5}
    assert run.step == 5
    assert newest.name in capsys.readouterr().err
    assert [path.name for path in folder.checkpoints()] == [older.name]


def test_named_checkpoint_is_used_even_if_a_newer_one_lies_beside_it(job: JobFolder, tmp_path: Path) -> None:
    """The scheduler names the checkpoint that counts; a later one of a fenced attempt does not."""
    older, _newest = train(job, steps=6)

    assert resume(tmp_path, older)[1] == {"step_seen": 5}


def test_first_checkpoint_of_an_attempt_falls_back_on_the_one_it_came_from(job: JobFolder, tmp_path: Path) -> None:
    """What an attempt starts from is kept beside its own checkpoints."""
    middle = JobFolder.create(tmp_path / "middle")
    run = Run(total_steps=9, environ=middle.environ(resume=train(job, steps=6)[-1]))
    run.resume()
    run.on_checkpoint(lambda: {"step_seen": run.step})
    list(run.steps())
    own = middle.checkpoints()[-1]
    damage(own)

    assert own.name.startswith("step-000009")
    assert resume(tmp_path, own)[1] == {"step_seen": 6}


def test_without_any_whole_checkpoint_training_starts_anew_and_says_so(
    job: JobFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing damaged is loaded; the log and a report tell that work was lost."""
    for path in (files := train(job, steps=6)):
        damage(path)

    run, state, folder = resume(tmp_path, files[-1])

    assert state is None
    assert run.step == 0
    assert folder.reports("resume_failed")[0]["name"] == files[-1].name
    assert "starts from the beginning" in capsys.readouterr().err


def test_missing_directory_is_reported_and_training_goes_on(tmp_path: Path) -> None:
    """A checkpoint that cannot be written is a line, not an end."""
    job = JobFolder.create(tmp_path / "attempt")
    run = Run(
        total_steps=3,
        checkpoint_every_steps=1,
        environ=job.environ(CLUSTERWEB_CHECKPOINT_DIR=str(tmp_path / "nowhere" / "checkpoints")),
    )
    run.on_checkpoint(lambda: {"x": 1})

    assert list(run.steps()) == [0, 1, 2]
    assert [report["step"] for report in job.reports("checkpoint_failed")] == [1, 2, 3]
    assert job.reports("completed")


def test_reports_that_could_not_be_written_come_with_the_next_one(tmp_path: Path) -> None:
    """A missing directory never ends a training, and what was said meanwhile is not lost once it is back."""
    job = JobFolder(tmp_path / "attempt")
    run = Run(total_steps=3, environ=job.environ())

    for step in run.steps():
        if step == 1:
            job.path.mkdir()

    assert [report["event"] for report in job.reports()] == ["started", "progress", "completed"]


def test_full_disk_for_reports_is_said_once_and_training_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    """No space left is told to the reader of the log one time, not at every report."""
    run = Run(total_steps=50, environ={"CLUSTERWEB_REPORT_FILE": "/dev/full"})

    assert list(run.steps()) == list(range(50))
    assert capsys.readouterr().err.count("training goes on") == 1
