"""Trainers of others, from the package index: preempted and moved, they train what they would have trained anyway."""

from pathlib import Path

import pytest

from tests.support.agents.frameworks import frameworks_python
from tests.support.agents.preempted import PreemptedJob
from tests.support.agents.server import AgentServer
from tests.support.agents.trainers import ACCELERATE, HUGGING_FACE, LIGHTNING, STEPS

# Steps after which it is preempted, and the server that it goes on.
STOPS = ((7, 0), (22, 1), (41, 1))
ENV = {"HF_HUB_OFFLINE": "1", "STEPS": str(STEPS)}


@pytest.fixture(scope="module")
def python(processes: None) -> str:
    """The Python that has the frameworks."""
    return str(frameworks_python())


def losses(directory: Path) -> dict[int, str]:
    """Return the loss of each step, as text; fail for a step that was trained twice."""
    found: dict[int, str] = {}
    lines = (directory / "record").read_text().splitlines() if (directory / "record").exists() else []
    for line in lines:
        step, _, loss = line.partition(" ")
        assert int(step) not in found, f"step {step} was trained twice"
        found[int(step)] = loss
    return found


@pytest.mark.parametrize("text", [HUGGING_FACE, LIGHTNING, ACCELERATE], ids=["hugging face", "lightning", "accelerate"])
def test_loss_curve_is_that_of_an_uninterrupted_run(servers: list[AgentServer], python: str, text: str) -> None:
    """Preempted three times and moved once to the other server: each step once, and every loss the same to the bit."""
    job = PreemptedJob((python, "train.py"), env=ENV, files={"train.py": text, "slow": ""})
    job.start(servers[0])
    for steps, server in STOPS:
        report = job.preempt(f"step {steps}", lambda least=steps: len(losses(job.directory)) >= least)  # type: ignore[misc]
        assert (report.end_cause, report.checkpoint_step) == ("preempted", report.step), job.logs[-1]
        job.start(servers[server])
    (job.directory / "slow").unlink()
    last = job.end()
    alone = PreemptedJob((python, "train.py"), env=ENV, files={"train.py": text})
    alone.start(servers[0])
    alone_ended = alone.end()

    assert (last.end_cause, last.step, last.total_steps) == ("completed", STEPS, STEPS), job.logs
    assert alone_ended.end_cause == "completed", alone.logs
    assert [report.first_step for report in job.ended[1:]] == [report.step for report in job.ended[:-1]]
    assert list(losses(job.directory)) == list(range(1, STEPS + 1))
    assert losses(job.directory) == losses(alone.directory)
    assert last.loss is not None
