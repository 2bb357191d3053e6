"""The scripts of "Move your script here" under real agents: preempted and moved, they lose nothing that they saved."""

import json
import re
import sys
from random import Random
from typing import Any

import pytest
import torch
import yaml

from scheduler.core.spec.spec import JobSpec
from tests.support.agents.frameworks import frameworks_python
from tests.support.agents.preempted import PreemptedJob
from tests.support.agents.server import AgentServer
from tests.support.suite.page_scripts import page_files

ENDLESS = "100000000"
PLAIN, SHELL, HUGGING_FACE = "PyTorch that saves to a folder", "A shell script around it", "Hugging Face or Lightning"
OWN_LOOP = "Your own loop"


def job_of(title: str, *, python: str = sys.executable) -> PreemptedJob:
    """Return a job with files, command and grace of the page."""
    files = page_files(title)
    spec = JobSpec.parse(yaml.safe_load(files.pop("job.yaml")))
    command = tuple(python if word == "python" else word for word in spec.command)
    return PreemptedJob(command, files=files, grace_s=spec.checkpoint.grace_s)


def steps_of(logs: list[str]) -> list[int]:
    """Return the steps that a script printed, over all of its attempts."""
    return [int(step) for log in logs for step in re.findall(r"^step (\d+)", log, re.MULTILINE)]


def test_plain_pytorch_trains_each_step_once_after_its_last_save(servers: list[AgentServer]) -> None:
    """Preempted 20 times after steps drawn at random, over two servers: the weights are those of a run left alone."""
    rng, job = Random(11), job_of(PLAIN)
    for _ in range(20):
        job.start(rng.choice(servers), env={"STEPS": ENDLESS})
        enough = rng.randrange(1, 40)
        job.preempt(f"{enough} steps", lambda least=enough: len(steps_of([job.log()])) >= least)  # type: ignore[misc]
    total = saved(job)["step"] + 5
    job.start(servers[0], env={"STEPS": str(total)})
    job.end()
    alone = job_of(PLAIN)
    alone.start(servers[1], env={"STEPS": str(total)})
    alone.end()
    trained = steps_of(job.logs)

    assert [report.end_cause for report in job.ended] == ["preempted"] * 20 + ["completed"]
    assert trained == sorted(set(trained)), "a step that was saved was trained again"
    assert total - len(trained) <= 20, "of a step at most its line is lost, between its save and its print"
    assert saved(job)["step"] == saved(alone)["step"] == total
    for name, weights in saved(alone)["model"].items():
        assert torch.equal(saved(job)["model"][name], weights), name


def saved(job: PreemptedJob) -> dict[str, Any]:
    """Return what the plain script saved last."""
    state: dict[str, Any] = torch.load(job.directory / "out" / "last.pt", weights_only=True)  # noqa: TID251  # its own
    return state


def test_child_of_a_shell_saves_when_it_is_asked(servers: list[AgentServer]) -> None:
    """Each attempt goes on at the step after the last one that was printed."""
    job = job_of(SHELL)
    for number in range(3):
        job.start(servers[number % 2], env={"STEPS": ENDLESS})
        job.preempt("steps", lambda: len(steps_of([job.log()])) >= 5)
    total = steps_of(job.logs)[-1] + 5
    job.start(servers[0], env={"STEPS": str(total)})
    job.end()
    state = json.loads((job.directory / "state.json").read_text())

    assert [report.end_cause for report in job.ended] == ["preempted"] * 3 + ["completed"], job.logs
    assert steps_of(job.logs) == list(range(1, total + 1))
    assert state == {"step": total, "total": sum(range(total))}
    assert "trained on 1000 rows" in job.logs[-1]


@pytest.mark.parametrize("title", [OWN_LOOP, HUGGING_FACE])
def test_script_with_our_runtime_goes_on_where_it_was(servers: list[AgentServer], title: str) -> None:
    """Preempted once and moved: the next attempt begins at the step that was saved, and trains to the end."""
    python = str(frameworks_python()) if title == HUGGING_FACE else sys.executable
    job = job_of(title, python=python)
    job.start(servers[0], env={"STEPS": ENDLESS, "HF_HUB_OFFLINE": "1"})
    stopped = job.preempt("steps", lambda: (job.report().step or 0) > 3)
    assert stopped.step is not None, job.logs
    job.start(servers[1], env={"STEPS": str(stopped.step + 5), "HF_HUB_OFFLINE": "1"})
    last = job.end()

    assert (stopped.end_cause, stopped.checkpoint_step) == ("preempted", stopped.step), job.logs
    assert (last.end_cause, last.first_step, last.step) == ("completed", stopped.step, stopped.step + 5), job.logs
