"""The runtime in real processes without torch: signals, exit codes, full disks, what an import costs."""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import agents.runtime
from tests.support.agents.runtime_job import JobFolder, process_environ


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return JobFolder.create(tmp_path / "attempt")


def run_script(script: str, variables: dict[str, str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", textwrap.dedent(script)],
        env=process_environ(variables),
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_sigterm_ends_the_process_at_a_boundary(job: JobFolder) -> None:
    """SIGTERM means stop: the step is finished and saved, clean-up runs, the exit code is 75."""
    script = """
        import os, signal
        from agents.runtime import Run
        run = Run(total_steps=10)
        run.on_checkpoint(lambda: {"x": 1})
        try:
            for step in run.steps():
                if step == 3:
                    os.kill(os.getpid(), signal.SIGTERM)
                print(step)
        finally:
            print("cleaned up")
    """

    ended = run_script(script, job.environ(), job.path)

    assert ended.returncode == 75, ended.stderr
    assert ended.stdout.split("\n") == ["0", "1", "2", "3", "cleaned up", ""]
    assert job.reports("stopped") == [{"event": "stopped", "step": 4}]
    assert job.checkpoints()[0].name.startswith("step-000004-")


def test_sigterm_keeps_its_meaning_before_and_after_training(job: JobFolder) -> None:
    """Where there is no boundary to wait for, the process ends by the signal as usual."""
    script = """
        import os, signal
        from agents.runtime import Run
        run = Run(total_steps=2)
        for step in run.steps():
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        print("still here")
    """

    ended = run_script(script, job.environ(), job.path)

    assert ended.returncode == -15
    assert ended.stdout == ""


def test_forked_helper_still_ends_by_sigterm(job: JobFolder) -> None:
    """A data loader that was forked during training does not inherit the polite stop."""
    script = """
        import os, signal
        from agents.runtime import Run
        run = Run(total_steps=1)
        for step in run.steps():
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                os.write(writing, b"up")
                while True:
                    signal.pause()
            os.read(reading, 2)
            os.kill(child, signal.SIGTERM)
            _, status = os.waitpid(child, 0)
            print(os.waitstatus_to_exitcode(status))
    """

    ended = run_script(script, job.environ(), job.path)

    assert ended.stdout == "-15\n", ended.stderr
    assert job.reports("completed")


def test_full_disk_loses_a_checkpoint_and_not_the_training(job: JobFolder) -> None:
    """A checkpoint that does not fit leaves nothing behind, and the one before it stays."""
    script = """
        import resource
        from agents.runtime import Run
        run = Run(total_steps=4, checkpoint_every_steps=1)
        state = {"text": "x" * 1000}
        run.on_checkpoint(lambda: state)
        for step in run.steps():
            if step == 2:
                state["text"] = "x" * 1_000_000
                resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
    """

    ended = run_script(script, job.environ(), job.path)

    assert ended.returncode == 0, ended.stderr
    assert [path.name[:11] for path in job.checkpoints()] == ["step-000001", "step-000002"]
    assert [report["step"] for report in job.reports("checkpoint_failed")] == [3, 4]
    assert "too large" in job.reports("checkpoint_failed")[0]["detail"]
    assert ended.stderr.count("no checkpoint at step") == 2


def test_report_cut_off_by_a_full_disk_does_not_spoil_the_next(job: JobFolder) -> None:
    """After half a line the next report starts on a line of its own, and what was cut off is said again."""
    script = """
        import os, resource
        from agents.runtime import Run
        run = Run(total_steps=3)
        hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, hard))
        for step in run.steps():
            resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
    """

    ended = run_script(script, job.environ(), job.path)

    lines = (job.path / "reports.jsonl").read_text().splitlines()
    assert ended.returncode == 0, ended.stderr
    assert lines[0] == '{"event": '
    assert [json.loads(line)["event"] for line in lines[1:]] == ["started", "progress", "completed"]


@pytest.mark.parametrize("state", ["{'x': {1, 2}}", "{'x': (1, 2)}", "{1: 'x'}", "{'x': float('nan')}"])
def test_state_that_json_would_change_is_refused(job: JobFolder, state: str) -> None:
    """Without torch a script learns at its first checkpoint, not after a preemption, that its state is no use."""
    script = f"""
        from agents.runtime import Run
        run = Run(total_steps=1)
        run.on_checkpoint(lambda: {state})
        list(run.steps())
    """

    ended = run_script(script, job.environ(), job.path)

    assert ended.returncode == 1
    assert "StateUnsavable" in ended.stderr
    assert not job.checkpoints()


def test_import_needs_the_standard_library_only(tmp_path: Path) -> None:
    """A script without torch does not pay for torch or numpy."""
    script = "import sys, agents.runtime; print([name for name in ('torch', 'numpy', 'celery') if name in sys.modules])"

    assert run_script(script, {}, tmp_path).stdout == "[]\n"


def test_example_of_the_documentation_runs(job: JobFolder) -> None:
    """What the docstring shows to a stranger works as it stands, inside Clusterweb."""
    documentation = agents.runtime.__doc__ or ""
    example = documentation.split("::\n", 1)[1].split("\n\nWhen the job", 1)[0]

    ended = run_script(example, job.environ(), job.path)

    assert ended.returncode == 0, ended.stderr
    assert job.reports("completed") == [{"event": "completed", "step": 1000}]
    assert json.loads(job.checkpoints()[-1].read_bytes())["state"]["w"] == pytest.approx(3.0, abs=0.1)
