"""Jobs that note when their first step has ended, and how long that was after the decision to launch them."""

import time

from tests.support.agents.server import AgentServer, wait_for, wanted, warm_ready

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


def launch_s(server: AgentServer, script: str, *, is_warm: bool) -> float:
    """Return the seconds from the desired state's arrival at the agent to the end of the job's first step."""
    if is_warm:
        wait_for("a process that is ready", warm_ready, within_s=120)
    order = wanted(("python", "train.py"), files={"train.py": script}, memory_bytes=2 * 1024**3)
    began_s = time.monotonic()
    server.send(order)
    server.wait_phase(order, "ended", within_s=120)
    return float((server.job_dir(order) / "first").read_text()) - began_s
