"""From a decision to the first step of a job, by a real agent and supervisor: without torch, with it, and started ahead
of time."""

import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.runtime.figure import Figure
from tests.agent_server import AgentServer, marked, wait_for, wanted

TITLE = "Launches"
REPEATS = 5
# From the start of a waiting process until it has imported all on a busy machine; nothing tells from outside.
READY_S = 10.0
PLAIN = """
import time
from agents.runtime import Run
run = Run(total_steps=1, quiet=True)
for step in run.steps():
    open("first", "w").write(str(time.monotonic()))
"""
TRAINING = """
import time
import torch
from agents.runtime import Run
run = Run(total_steps=1, quiet=True)
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.AdamW(model.parameters())
for step in run.steps():
    model(torch.randn(4, 8)).sum().backward()
    optimizer.step()
    open("first", "w").write(str(time.monotonic()))
"""


def figures() -> Sequence[Figure]:
    """Measure all of it."""
    plain, cold, warm = _launches(PLAIN, 0), _launches(TRAINING, 0), _launches(TRAINING, 1)
    return (
        _figure("a script without torch", plain, most_s=2.0),
        _figure("a script that imports torch, in a process that has waited with torch imported", warm, most_s=0.5),
        _figure("a script that imports torch, in a new process", cold, most_s=None),
    )


def _launches(script: str, warm_processes: int) -> list[float]:
    """Return the seconds from the desired state's arrival at the agent to the end of the job's first step."""
    with tempfile.TemporaryDirectory(prefix="launches-") as folder:
        server = AgentServer(Path(folder))
        server.config = replace(server.config, warm_processes=warm_processes)
        server.start()
        try:
            return [_launch_s(server, script, is_warm=warm_processes > 0) for _ in range(REPEATS)]
        finally:
            server.end()


def _launch_s(server: AgentServer, script: str, *, is_warm: bool) -> float:
    if is_warm:
        wait_for("a process that waits", lambda: marked("0" * 26), within_s=60)
        time.sleep(READY_S)
    order = wanted(("python", "train.py"), files={"train.py": script}, memory_bytes=2 * 1024**3)
    began_s = time.monotonic()
    server.send(order)
    server.wait_phase(order, "ended", within_s=120)
    return float((server.directory(order) / "work" / "first").read_text()) - began_s


def _figure(what: str, launches: Sequence[float], *, most_s: float | None) -> Figure:
    return Figure(
        name=f"from the decision to the end of the first step, {what}, s",
        target="" if most_s is None else f"at most {most_s:g}",
        value=f"{statistics.median(launches):.2f}",
        is_met=None if most_s is None else statistics.median(launches) <= most_s,
        setting=f"median of {len(launches)}, largest {max(launches):.2f}; from the desired state's arrival",
    )
