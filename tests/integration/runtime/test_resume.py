"""The workloads learn, and a training that is interrupted equals one that is not, to the bit, across processes."""

import math
import os
import select
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from agents.workloads import WORKLOADS
from tests.support.agents.runtime_job import REPOSITORY, JobFolder, process_environ

STEPS = 60


def drive(phase: str, root: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.integration.runtime.workload_driver", phase, str(root)],
        env=process_environ({}),
        cwd=REPOSITORY,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of all workloads, each trained in full, stopped half-way, and resumed in another process."""
    root = tmp_path_factory.mktemp("workloads")
    drive("interrupt", root)
    drive("resume", root)
    return root


def steps_of(folder: Path) -> list[str]:
    return (folder / "steps").read_text().splitlines()


@pytest.mark.parametrize("name", WORKLOADS)
def test_resumed_training_equals_the_uninterrupted_one(trained: Path, name: str) -> None:
    """Weights, optimizer, schedule, random numbers and every loss are the same bits; no step is doubled or left out."""
    full, stopped, resumed = (trained / name / kind for kind in ("full", "stopped", "resumed"))

    assert (stopped / "exit_code").read_text() == "75"
    assert steps_of(stopped) + steps_of(resumed) == steps_of(full)
    assert len(steps_of(full)) == STEPS
    assert (resumed / "weights").read_text() == (full / "weights").read_text()
    assert (resumed / "fingerprint").read_text() == (full / "fingerprint").read_text()
    assert (stopped / "weights").read_text() != (full / "weights").read_text()


@pytest.mark.parametrize("name", WORKLOADS)
def test_loss_falls(trained: Path, name: str) -> None:
    """Each workload learns something from its generated data in a few dozen steps."""
    losses = [float.fromhex(line.split()[1]) for line in steps_of(trained / name / "full")]

    assert all(math.isfinite(loss) for loss in losses)
    assert sum(losses[-5:]) < 0.75 * sum(losses[:5])


class TrainingProcess:
    """A workload in a process of its own, long enough that it never ends by itself during a test."""

    def __init__(self, folder: JobFolder, *, resume: Path | None = None) -> None:
        pipe = folder.path / "steps"
        os.mkfifo(pipe)
        self._pipe = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)  # both ends: there is always a reader
        self._text = ""
        sizes = ["--steps", "100000", "--size", "16", "--rows", "64", "--batch", "8", "--width", "4", "--depth", "1"]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "agents.workloads.resnet", *sizes, "--write-steps", str(pipe)],
            env=process_environ(folder.environ(resume=resume)),
            cwd=folder.path,
            stdout=subprocess.DEVNULL,
        )

    def wait_for_steps(self, least: int) -> None:
        while self._text.count("\n") < least:
            assert select.select([self._pipe], [], [], 60)[0], "no step within a minute"
            self._text += os.read(self._pipe, 65536).decode()

    def terminate(self) -> None:
        self._process.terminate()

    def finish(self) -> tuple[int, list[int]]:
        """Return the exit code and the numbers of the trained steps."""
        code = self._process.wait(timeout=300)
        if select.select([self._pipe], [], [], 0)[0]:
            self._text += os.read(self._pipe, 65536).decode()
        os.close(self._pipe)
        return code, [int(line.split()[0]) for line in self._text.splitlines()]

    def kill(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., tuple[JobFolder, TrainingProcess]]]:
    """Return a function that starts a workload in a new folder; what still runs at the end of the test is killed."""
    started: list[TrainingProcess] = []

    def begin(*, resume: Path | None = None) -> tuple[JobFolder, TrainingProcess]:
        folder = JobFolder.create(tmp_path / f"attempt-{len(started)}")
        started.append(TrainingProcess(folder, resume=resume))
        return folder, started[-1]

    yield begin
    for process in started:
        process.kill()


def test_stop_by_request_and_by_sigterm_across_real_processes(
    start: Callable[..., tuple[JobFolder, TrainingProcess]],
) -> None:
    """Both ways of stopping end a real process at a boundary with 75, and the next one continues exactly there."""
    first_job, first = start()
    first.wait_for_steps(3)
    first_job.ask(1, "stop")
    first_code, first_steps = first.finish()
    second_job, second = start(resume=first_job.checkpoints()[-1])
    second.wait_for_steps(3)
    second.terminate()
    second_code, second_steps = second.finish()

    assert (first_code, second_code) == (75, 75)
    assert first_steps + second_steps == list(range(len(first_steps) + len(second_steps)))
    assert len(first_steps) >= 3
    assert len(second_steps) >= 3
    for job, reached in ((first_job, len(first_steps)), (second_job, len(first_steps) + len(second_steps))):
        assert job.reports("stopped") == [{"event": "stopped", "step": reached}]
        assert job.reports("checkpoint")[-1]["step"] == reached
