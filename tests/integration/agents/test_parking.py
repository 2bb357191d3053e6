"""Real processes that leave their devices and go on at the same place, without a restart."""

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.support.agents.server import AgentServer, script, wait_for, wanted

STEPS = """
import sys, time
from agents.runtime import Run
run = Run(checkpoint_every_s=None)
state = run.resume() or {"sum": 0}
run.on_checkpoint(lambda: state)
for step in run.steps():
    end = time.perf_counter() + 0.01
    while time.perf_counter() < end:
        state["sum"] += 1
    with open(sys.argv[1], "a") as file:
        file.write(f"{step}\\n")
"""

PLAIN = """
import sys, time
for step in range(10**6):
    with open(sys.argv[1], "a") as file:
        file.write(f"{step}\\n")
    time.sleep(0.01)
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[AgentServer]:
    made = AgentServer(tmp_path)
    made.start()
    yield made
    made.end()


def trained(record: Path) -> list[int]:
    """Return the steps that were trained, in order."""
    return [int(line) for line in record.read_text().split()] if record.exists() else []


def test_parked_job_uses_no_cpu_and_goes_on_in_the_same_process(server: AgentServer, tmp_path: Path) -> None:
    """Suspended at a boundary in a moment, resumed in a moment; no step is lost or trained twice."""
    record = tmp_path / "steps"
    order = wanted((*script(STEPS), str(record)))
    server.send(order)
    pid = server.wait_phase(order, "running").pid
    wait_for("some steps", lambda: len(trained(record)) > 20)
    server.send(replace(order, wanted="park", gpu_indexes=(), gpu_uuids=()))
    server.wait_phase(order, "parked")
    steps, used = len(trained(record)), psutil.Process(pid).cpu_times()
    time.sleep(1.0)
    idle = psutil.Process(pid).cpu_times()
    still = len(trained(record))
    server.send(order)
    server.wait_phase(order, "running")
    wait_for("more steps", lambda: len(trained(record)) > steps + 20)
    report = server.report(order)

    assert still == steps
    assert idle.user + idle.system - used.user - used.system <= 0.05
    assert trained(record) == list(range(len(trained(record))))
    assert report is not None
    assert report.pid == pid


def test_parked_job_checkpoints_when_it_is_preempted(server: AgentServer, tmp_path: Path) -> None:
    """It answers from where it waits; elsewhere it goes on at the next step."""
    record = tmp_path / "steps"
    order = wanted((*script(STEPS), str(record)))
    server.send(order)
    wait_for("some steps", lambda: len(trained(record)) > 20)
    parked = replace(order, wanted="park", gpu_indexes=(), gpu_uuids=())
    server.send(parked)
    server.wait_phase(order, "parked")
    server.send(replace(parked, wanted="preempt"))
    report = server.wait_phase(order, "ended")

    assert report.end_cause == "preempted"
    assert report.checkpoint_step == len(trained(record))


def test_script_without_runtime_is_held_still(server: AgentServer, tmp_path: Path) -> None:
    """It knows nothing of boundaries: it is stopped where it is, and continued there."""
    record = tmp_path / "steps"
    order = wanted((*script(PLAIN), str(record)))
    server.send(order)
    wait_for("some steps", lambda: len(trained(record)) > 20)
    server.send(replace(order, wanted="park", gpu_indexes=(), gpu_uuids=()))
    pid = server.wait_phase(order, "parked").pid
    wait_for("stopped", lambda: psutil.Process(pid).status() == psutil.STATUS_STOPPED)
    steps = len(trained(record))
    server.send(order)
    wait_for("more steps", lambda: len(trained(record)) > steps + 20)

    assert trained(record) == list(range(len(trained(record))))
