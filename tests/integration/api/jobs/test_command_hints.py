"""What the ``clusterweb`` command tells beside its answer, so that the next one is right."""

import sys
from pathlib import Path

import pytest

from clusterweb.cli.main import main
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job
from scheduler.models.server import ServerState
from tests.integration.api.conftest import World
from tests.integration.pages_jobs.conftest import log_write, newest_attempt
from tests.support.rows.factories import AT, attempt_make, job_make, server_make


def test_log_after_a_resume_tells_how_to_see_the_attempt_before(
    shop: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """Beside the log, which is of the newest attempt; not for the first, nor where an attempt was asked for."""
    job = job_make(shop.vision, state=JobState.RUNNING)
    name = f"J-{job.number}"
    main(["logs", name])
    first = capsys.readouterr().err
    job.attempts.update(state="ended", ended_at=AT)
    attempt_make(job)
    main(["logs", name])
    second = capsys.readouterr()
    main(["logs", name, "--attempt", "2"])

    assert "--attempt" not in first
    assert f"This is attempt 2. The log of the one before: clusterweb logs {name} --attempt 1\n" in second.err
    assert "attempt" not in second.out
    assert "--attempt" not in capsys.readouterr().err


def test_a_wrong_word_is_repeated_where_one_or_several_may_be_given(
    shop: World, capsys: pytest.CaptureFixture[str]
) -> None:
    """So that a slip of the pen is seen; with the nearest that is right."""
    answer = shop.client("member").get("/api/v1/jobs?ordering=numbr")
    assert main(["ls", "--state", "runing"]) == 1

    assert "not 'numbr'. Did you mean 'number'?" in answer.json()["detail"]
    assert "not 'runing'. Did you mean 'running'?" in capsys.readouterr().err


def test_a_log_on_a_terminal_is_harmless_and_its_bytes_are_kept_elsewhere(
    shop: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No title, no cursor, no hidden text; a pipe and --raw have what the job wrote."""
    job = job_make(shop.vision, state=JobState.RUNNING)
    wrote = "\x1b]0;evil\x07\x1b[2J\x1b[31mred\x1b[0m\x1b[8mhidden\x1b[0m a\x00b\u202e\r\n"
    log_write(newest_attempt(job), wrote)
    main(["logs", f"J-{job.number}"])
    piped = capsys.readouterr().out
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    main(["logs", f"J-{job.number}"])
    shown = capsys.readouterr().out
    main(["logs", f"J-{job.number}", "--raw"])

    assert piped == capsys.readouterr().out == wrote
    assert shown == "\x1b[31mred\x1b[0mhidden\x1b[0m a^@b\r\n\x1b[0m"


def test_a_folder_without_a_spec_is_named_in_full(
    shop: World, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dot and the end of a sentence together read as the folder above."""
    folder = tmp_path / "my train"
    folder.mkdir()
    monkeypatch.chdir(folder)
    assert main(["submit", "."]) == 2
    here = capsys.readouterr().err
    monkeypatch.chdir(tmp_path)
    assert main(["submit", "my train"]) == 2

    assert f"There is no job.yaml in the folder {folder}\n" in here
    assert "clusterweb submit . --queue" in here
    assert "clusterweb submit 'my train' --queue" in capsys.readouterr().err


def test_cancel_of_an_array_tells_which_jobs_are_still_ending(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """As the cancel of one job does; to look at an array says the states alone."""
    Path("array.yaml").write_text("apiVersion: v1\nname: a\nqueue: vision\ncommand: ['true']\narray: 0-2\n")
    assert main(["submit", "array.yaml"]) == 0
    key = capsys.readouterr().out.split()[0]
    first = Job.objects.get(array_number=int(key[2:]), array_index=0)
    running = job_make(shop.vision, owner=shop.users["member"], state=JobState.RUNNING)
    first.delete()
    Job.objects.filter(pk=running.pk).update(array_number=int(key[2:]), array_index=0)
    assert main(["array", "cancel", key]) == 0
    cancelled = capsys.readouterr().out
    assert main(["array", "get", key]) == 0

    assert ": 2 cancelled, 1 running (ending)\n" in cancelled
    assert ": 2 cancelled, 1 running\n" in capsys.readouterr().out


def test_top_calls_a_server_drained_once_nothing_runs_on_it(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """As pages do; until then it is draining."""
    server_make("gpu-empty", state=ServerState.DRAINING)
    busy = server_make("gpu-busy", state=ServerState.DRAINING)
    attempt_make(job_make(shop.vision), server=busy)
    assert main(["top"]) == 0
    states = {line.split()[0]: line.split()[1] for line in capsys.readouterr().out.splitlines() if line[:4] == "gpu-"}

    assert states == {"gpu-empty": "drained", "gpu-busy": "draining"}


def test_the_end_of_a_long_log_says_that_it_is_not_all(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """With how to see more; not for a log that is whole, nor where the number of lines was said."""
    job = job_make(shop.vision, state=JobState.RUNNING)
    name, attempt = f"J-{job.number}", newest_attempt(job)
    log_write(attempt, "line\n" * 1000)
    main(["logs", name])
    whole = capsys.readouterr().err
    log_write(attempt, "line\n" * 1001)
    main(["logs", name])
    long = capsys.readouterr()
    main(["logs", name, "--tail", "5"])

    assert "last" not in whole + capsys.readouterr().err
    assert long.out == "line\n" * 1000
    [told] = long.err.splitlines()
    assert told.startswith("These are the last 1000 lines. For more add --tail 10000. All that is kept: http")
    assert told.endswith(f"/jobs/{name}/logs")
