"""Steps, boundaries and reports of a run, in this process and on a clock of the test."""

import math
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from agents.runtime import EXIT_STOPPED, BadEnvironment, Run
from tests.support.agents.runtime_job import JobFolder, SteppingClock


@pytest.fixture(autouse=True)
def usual_sigterm() -> Iterator[None]:
    """Give SIGTERM back what it meant, for a test that leaves its loop half-way."""
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


@pytest.fixture
def job(tmp_path: Path) -> JobFolder:
    return JobFolder.create(tmp_path / "attempt")


def make_run(
    job: JobFolder,
    clock: SteppingClock | None = None,
    *,
    resume: Path | None = None,
    **options: Any,  # of Run
) -> Run:
    settings = {"total_steps": 10, "checkpoint_every_s": None} | options
    return Run(environ=job.environ(resume=resume), clock=clock or SteppingClock(), **settings)


def train_until_stopped(job: JobFolder, run: Run, *, ask_in_step: int) -> list[int]:
    """Train, ask to stop in the middle of a step, and return the trained steps."""
    trained = []

    def train() -> None:
        for step in run.steps():
            if step == ask_in_step:
                job.ask(100, "stop")
            trained.append(step)

    with pytest.raises(SystemExit) as ended:
        train()
    assert ended.value.code == EXIT_STOPPED == 75
    return trained


def test_every_step_is_trained_once_and_completion_is_reported(job: JobFolder) -> None:
    """A run yields 0 to total - 1 and says where it began and ended."""
    run = make_run(job)

    trained = list(run.steps())

    assert trained == list(range(10))
    assert run.step == 10
    assert [report["event"] for report in job.reports()] == ["started", "progress", "completed"]
    assert job.reports("started") == [{"event": "started", "step": 0, "total_steps": 10}]
    assert job.reports("completed") == [{"event": "completed", "step": 10}]


def test_stop_request_ends_the_process_with_75_after_a_checkpoint(job: JobFolder) -> None:
    """A stop is obeyed at the next boundary: the step in progress is finished, saved and counted."""
    run = make_run(job)
    run.on_checkpoint(lambda: {"weights": [1.5]})

    trained = train_until_stopped(job, run, ask_in_step=4)

    assert trained == [0, 1, 2, 3, 4]
    (checkpoint,) = job.checkpoints()
    assert [(report["event"], report["step"]) for report in job.reports()][-2:] == [("checkpoint", 5), ("stopped", 5)]
    assert job.reports("checkpoint")[0]["name"] == checkpoint.name
    assert checkpoint.name.startswith("step-000005-")


def test_interrupted_and_resumed_run_trains_each_step_once(job: JobFolder, tmp_path: Path) -> None:
    """A resumed run continues at the step after the last one, with the state that was saved."""
    first = make_run(job)
    first.on_checkpoint(lambda: {"steps_seen": first.step})
    trained = train_until_stopped(job, first, ask_in_step=6)
    again = JobFolder.create(tmp_path / "again")

    second = make_run(again, resume=job.checkpoints()[-1])
    state = second.resume()
    trained += list(second.steps())

    assert state == {"steps_seen": 7}
    assert trained == list(range(10))
    assert again.reports("started") == [{"event": "started", "step": 7, "total_steps": 10}]


def test_stop_that_waits_before_the_first_step_trains_nothing(job: JobFolder, tmp_path: Path) -> None:
    """A job that is asked to stop while it starts leaves at once and names the checkpoint that it came from."""
    for step in (saved := make_run(job)).steps():
        if step == 3:
            saved.on_checkpoint(lambda: {"x": 1})
            saved.checkpoint()
            break
    again = JobFolder.create(tmp_path / "again")
    again.ask(1, "stop")
    run = make_run(again, resume=job.checkpoints()[-1])
    run.resume()

    with pytest.raises(SystemExit):
        next(run.steps())

    assert [path.name for path in again.checkpoints()] == [path.name for path in job.checkpoints()]
    assert [report["event"] for report in again.reports()] == ["started", "progress", "checkpoint", "stopped"]


def test_checkpoint_request_is_answered_once_and_training_goes_on(job: JobFolder) -> None:
    """A request that stays in place or is put there again asks once; a higher id asks again."""
    run = make_run(job)
    run.on_checkpoint(lambda: {"x": 1})

    for step in run.steps():
        if step in (2, 4, 6):
            job.ask(1 if step < 6 else 2, "checkpoint")

    assert [report["step"] for report in job.reports("checkpoint")] == [3, 7, 10]
    assert job.reports("completed")


def test_request_at_the_last_step_lets_the_run_complete(job: JobFolder) -> None:
    """Nothing is left to stop when the last step is done."""
    run = make_run(job)

    for step in run.steps():
        if step == 9:
            job.ask(1, "stop")

    assert job.reports("completed")
    assert not job.reports("stopped")


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"id": 1}', b'{"id": "x", "request": "stop"}', b'{"id": 1, "request": "dance"}']
)
def test_request_file_without_a_request_changes_nothing(job: JobFolder, content: bytes) -> None:
    """A torn or foreign request file neither stops nor breaks training."""
    (job.path / "request.json").write_bytes(content)

    assert list(make_run(job).steps()) == list(range(10))


def test_stop_without_on_checkpoint_still_stops(job: JobFolder) -> None:
    """A script that can save nothing stops too, and says that nothing was saved."""
    run = make_run(job)
    job.ask(1, "checkpoint")

    train_until_stopped(job, run, ask_in_step=0)

    assert [report["event"] for report in job.reports()][-2:] == ["checkpoint_failed", "stopped"]
    assert not job.checkpoints()


def test_checkpoints_come_by_time_and_by_steps(job: JobFolder, tmp_path: Path) -> None:
    """A checkpoint is due when its seconds or its steps have passed since the one before."""
    clock = SteppingClock()
    by_time = make_run(job, clock, checkpoint_every_s=30.0, total_steps=100)
    by_time.on_checkpoint(lambda: {"x": 1})
    other = JobFolder.create(tmp_path / "other")
    by_steps = make_run(other, checkpoint_every_steps=40, total_steps=100)
    by_steps.on_checkpoint(lambda: {"x": 1})

    for _ in by_time.steps():
        clock.now_s += 1.0
    for _ in by_steps.steps():
        pass

    assert [report["step"] for report in job.reports("checkpoint")] == [30, 60, 90, 100]
    assert [report["step"] for report in other.reports("checkpoint")] == [40, 80, 100]


def test_slow_checkpoints_leave_time_to_train(job: JobFolder) -> None:
    """The seconds count from the end of a checkpoint, so a slow disk does not get one after each step."""
    clock = SteppingClock()
    run = make_run(job, clock, checkpoint_every_s=30.0, total_steps=100)

    @run.on_checkpoint
    def capture() -> dict[str, int]:
        clock.now_s += 60.0
        return {"x": 1}

    for _ in run.steps():
        clock.now_s += 1.0

    assert [report["step"] for report in job.reports("checkpoint")] == [30, 60, 90, 100]


def test_progress_is_reported_at_most_twice_a_second_with_its_rate(job: JobFolder) -> None:
    """However fast the steps are, reports come every half second and carry the measured speed."""
    clock = SteppingClock()
    run = make_run(job, clock, total_steps=1000)

    for step in run.steps():
        clock.now_s += 1 / 256
        run.report(loss=1.0 / (step + 1))

    progress = job.reports("progress")
    assert [report["step"] for report in progress] == [128, 256, 384, 512, 640, 768, 896, 1000]
    assert all(report["steps_per_s"] == pytest.approx(256) for report in progress)
    assert progress[0] == {
        "event": "progress",
        "step": 128,
        "total_steps": 1000,
        "loss": 1 / 128,
        "steps_per_s": 256.0,
    }


def test_rate_forgets_a_slow_start(job: JobFolder) -> None:
    """The speed is that of the newest reports, not the mean since the start."""
    clock = SteppingClock()
    run = make_run(job, clock, total_steps=60)

    for step in run.steps():
        clock.now_s += 100.0 if step < 10 else 1.0

    assert job.reports("progress")[-1]["steps_per_s"] == pytest.approx(1.0)


@pytest.mark.parametrize("loss", [math.nan, math.inf, -math.inf, None])
def test_loss_that_is_no_number_is_reported_as_missing(job: JobFolder, loss: float | None) -> None:
    """JSON has no word for infinity; a diverged loss is null and its line can be read."""
    run = make_run(job, total_steps=1)

    for _ in run.steps():
        run.report(loss=loss)

    assert job.reports("progress")[0]["loss"] is None


class DeviceLoss:
    """Like a tensor on a device: reading it waits for the device; it holds a graph until it is detached."""

    def __init__(self) -> None:
        self.num_reads = 0

    def detach(self) -> "DeviceLoss":
        return self

    def __float__(self) -> float:
        self.num_reads += 1
        return 0.25


def test_loss_is_read_only_when_it_goes_out(job: JobFolder) -> None:
    """Reporting at every step does not make training wait for the device at every step."""
    run, loss = make_run(job), DeviceLoss()

    for _ in run.steps():
        run.report(loss=loss)

    assert loss.num_reads == 1
    assert job.reports("progress")[0]["loss"] == 0.25


def test_own_loop_calls_the_boundary_itself(job: JobFolder) -> None:
    """A script with a loop of its own gets the same by one call after each mini-batch."""
    run = make_run(job, total_steps=6)
    run.on_checkpoint(lambda: {"x": 1})

    for _epoch in range(2):
        for _batch in range(3):
            run.boundary()

    assert [report["event"] for report in job.reports()] == ["started", "progress", "checkpoint", "completed"]
    assert job.reports("checkpoint")[0]["step"] == 6


def test_poll_answers_between_steps_and_counts_none(job: JobFolder) -> None:
    """In an evaluation a job is asked for a checkpoint and, later, to stop; it does not wait for the next step."""
    run = make_run(job, checkpoint_every_steps=2)
    run.on_checkpoint(lambda: {"x": 1})
    evaluated = 0

    def train() -> None:
        nonlocal evaluated
        for step in run.steps():
            if step != 4:
                continue
            for batch in range(100):
                if batch in (10, 20):
                    job.ask(batch, "checkpoint" if batch == 10 else "stop")
                evaluated = batch
                run.poll()

    with pytest.raises(SystemExit) as ended:
        train()

    assert ended.value.code == EXIT_STOPPED
    assert evaluated == 20
    assert run.step == 4
    assert [report["step"] for report in job.reports("checkpoint")] == [2, 4, 4, 4]
    assert job.reports("stopped") == [{"event": "stopped", "step": 4}]


def test_poll_answers_sigterm_before_the_first_step(job: JobFolder) -> None:
    """While a training warms up, which may take long, it leaves at once and has nothing to save."""
    run = make_run(job)
    run.on_checkpoint(lambda: {"x": 1})
    run.poll()
    signal.raise_signal(signal.SIGTERM)

    with pytest.raises(SystemExit):
        run.poll()

    assert [report["event"] for report in job.reports()] == ["started", "progress", "stopped"]
    assert not job.checkpoints()


def test_poll_after_the_last_step_does_nothing(job: JobFolder) -> None:
    """The job is complete: what it evaluates afterwards is its own."""
    run = make_run(job)
    list(run.steps())
    before = job.reports()
    job.ask(1, "stop")

    run.poll()

    assert job.reports() == before


def test_poll_saves_by_time(job: JobFolder) -> None:
    """A long evaluation does not keep a training from being saved, and saves it once."""
    clock = SteppingClock()
    run = make_run(job, clock, checkpoint_every_s=30.0)
    captured = []

    @run.on_checkpoint
    def capture() -> dict[str, int]:
        captured.append(run.step)
        return {"x": 1}

    run.boundary()
    for _ in range(100):
        clock.now_s += 1.0
        run.poll()

    assert captured == [1]
    assert {report["step"] for report in job.reports("checkpoint")} == {1}


def test_framework_is_told_what_to_do_and_does_it_itself(job: JobFolder) -> None:
    """It counts, saves and ends; the run says when, and notes what was saved."""
    clock, folder = SteppingClock(), [""]
    run = make_run(job, clock, total_steps=None, checkpoint_every_s=30.0)
    run.on_checkpoint(lambda: {"folder": folder[0]})
    told = []
    for step in range(8):
        clock.now_s += 10.0
        if step == 6:
            job.ask(1, "stop")
        told.append(asked := run.ask(step, total_steps=50))
        if asked is not None:
            folder[0] = f"out-{step}"
            run.checkpoint()
        if asked == "stop":
            break
    with pytest.raises(SystemExit) as ended:
        run.leave()

    assert told == [None, None, None, "checkpoint", None, None, "stop"]
    assert ended.value.code == EXIT_STOPPED
    assert [report["step"] for report in job.reports("checkpoint")] == [3, 6, 6]
    assert job.reports("started") == [{"event": "started", "step": 0, "total_steps": 50}]
    assert job.checkpoints()[-1].name.startswith("step-000006-")


def test_run_that_was_complete_trains_nothing_more(job: JobFolder, tmp_path: Path) -> None:
    """An attempt that died after its last step completes at once when it is started again."""
    run = make_run(job)
    run.on_checkpoint(lambda: {"x": 1})
    list(run.steps())
    again = JobFolder.create(tmp_path / "again")
    second = make_run(again, resume=job.checkpoints()[-1])
    second.resume()

    assert list(second.steps()) == []
    assert again.reports("completed") == [{"event": "completed", "step": 10}]


def test_outside_clusterweb_only_progress_is_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Without the variables a script runs the same, prints where it stands, and leaves no file."""
    clock = SteppingClock()
    run = Run(total_steps=8, environ={}, clock=clock)
    run.on_checkpoint(lambda: {"x": 1})
    state = run.resume()

    for _ in run.steps():
        clock.now_s += 0.5
        run.report(loss=0.5)

    assert state is None
    assert run.num_cpus is None
    assert capsys.readouterr().out.splitlines() == [
        "step 4/8  loss 0.5  2 steps/s",
        "step 8/8  loss 0.5  2 steps/s",
    ]
    assert list(tmp_path.iterdir()) == []


def test_run_without_a_known_end_goes_on_until_the_script_breaks(job: JobFolder) -> None:
    """total_steps may be unknown."""
    run = make_run(job, total_steps=None)

    for step in run.steps():
        if step == 20:
            break

    assert job.reports("started")[0]["total_steps"] is None
    assert not job.reports("completed")


@pytest.mark.parametrize(("text", "cores"), [("4", 4), ("2.5", 2), ("0.5", 1)])
def test_granted_cores_are_whole_and_at_least_one(text: str, cores: int) -> None:
    """A share of a core still needs one thread."""
    assert Run(environ={"CLUSTERWEB_NUM_CPUS": text}).num_cpus == cores


@pytest.mark.parametrize("text", ["many", "-1", "nan"])
def test_wrong_variable_is_named(text: str) -> None:
    """A value that cannot be used fails at the start with the name of its variable."""
    with pytest.raises(BadEnvironment, match="CLUSTERWEB_NUM_CPUS"):
        Run(environ={"CLUSTERWEB_NUM_CPUS": text})
