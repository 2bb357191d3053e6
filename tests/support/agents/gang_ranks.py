"""Ranks of a gang as plain processes, without agents: started, steered and looked at by tests and benchmarks."""

import json
import multiprocessing
import os
import socket
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from tests.support.agents.runtime_job import JobFolder

ROWS = 48
SECRET = "0" * 32
# Torch is imported once, in the process that all ranks are forked from.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(
    [
        "torch",
        "torch.distributed",
        "agents.runtime.torch_state",
        "agents.runtime.gang",
        "tests.support.agents.gang_ranks",
    ]
)


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass(frozen=True, kw_only=True)
class Training:
    """What every rank trains: a small network on generated rows."""

    steps: int
    batch: int = 8
    step_s: float = 0.0  # until told to hurry
    debounce_s: float = 0.0
    polls: int = 0  # within each step, as in an evaluation
    start_s: float = 0.0  # of a rank that comes later, as if it had to import much


@dataclass
class Gang:
    """One gang under test; ranks are started and told of memberships as a scheduler would."""

    folder: Path
    training: Training
    port: int = field(default_factory=free_port)
    version: int = 0
    is_cold: bool = False  # whether ranks import torch themselves, as a job's processes do
    ranks: dict[str, BaseProcess] = field(default_factory=dict)

    def start(self, *members: str, resume: Path | None = None) -> None:
        """Start ranks for the present version; the very first is the leader, which may resume from a checkpoint."""
        processes = multiprocessing.get_context("spawn") if self.is_cold else _processes
        for member in members:
            place = {
                "CLUSTERWEB_GANG_MEMBER": member,
                "RANK": str(len(self.ranks)),
                "WORLD_SIZE": str(len(members)),
                "MASTER_ADDR": "127.0.0.1",
                "MASTER_PORT": str(self.port),
                "CLUSTERWEB_GANG_VERSION": str(self.version),
                "CLUSTERWEB_GANG_SECRET": SECRET,
                "CLUSTERWEB_GANG_FILE": str(self.folder / "gang.json"),
                "CLUSTERWEB_ADDRESS": "127.0.0.1",
            }
            environ = JobFolder.create(self.folder / member).environ(resume=None if self.ranks else resume) | place
            arguments = (environ, str(self.folder / member), self.training)
            process = processes.Process(target=train, args=arguments)
            self.ranks[member] = process
            process.start()

    def share(self, *members: str) -> None:
        """Make these the members, in a new version."""
        self.version += 1
        self.write(*members)

    def write(self, *members: str) -> None:
        """Write the membership of the present version."""
        temporary = self.folder / "gang.tmp"
        temporary.write_text(json.dumps({"version": self.version, "members": members}))
        temporary.replace(self.folder / "gang.json")

    def job(self, member: str) -> JobFolder:
        """Return the directory of one rank."""
        return JobFolder(self.folder / member)

    def steps(self, member: str) -> list[dict[str, Any]]:
        """Return what the rank trained so far."""
        file = self.folder / member / "steps"
        lines = file.read_text().split("\n")[:-1] if file.exists() else []
        return [json.loads(line) for line in lines]

    def losses(self, member: str) -> list[float]:
        """Return the loss of each step."""
        return [step["loss"] for step in self.steps(member)]

    def wait(self, what: str, condition: Callable[[], object], *, within_s: float = 300.0) -> None:
        """Wait until the condition is true."""
        end_s = time.monotonic() + within_s
        while not condition():
            if time.monotonic() > end_s:
                raise AssertionError(f"not within {within_s:.0f} s: {what}")
            time.sleep(0.01)

    def codes(self, *, within_s: float = 300.0) -> dict[str, int | None]:
        """Let the training run to its end without a pause, wait for every rank, and return the exit codes."""
        (self.folder / "hurry").touch()
        for rank in self.ranks.values():
            rank.join(within_s)
        return {member: rank.exitcode for member, rank in self.ranks.items()}

    def end(self) -> None:
        """Leave no rank behind."""
        for rank in self.ranks.values():
            rank.kill()
            rank.join()


def train(environ: dict[str, str], folder: str, training: Training) -> None:
    """Be one rank."""
    import torch

    from agents.runtime import Run
    from agents.runtime.gang import join_gang
    from agents.runtime.torch_state import Batches, capture, restore

    torch.set_num_threads(1)
    if environ["CLUSTERWEB_GANG_VERSION"] != "0":
        time.sleep(training.start_s)
    gang = join_gang(environ, debounce_s=training.debounce_s)
    run = Run(total_steps=training.steps, checkpoint_every_s=None, environ=environ, gang=gang)
    torch.manual_seed(3)
    inputs, targets = torch.randn(ROWS, 5), torch.randn(ROWS, 1)
    model = torch.nn.Sequential(torch.nn.Linear(5, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    batches = Batches(num_rows=ROWS, batch_size=training.batch, seed=5)
    run.on_checkpoint(lambda: capture(model, optimizer=optimizer, batches=batches))
    restore(run.resume(), model, optimizer=optimizer, batches=batches)
    hurry = os.path.join(os.path.dirname(folder), "hurry")
    with open(os.path.join(folder, "steps"), "a", encoding="ascii", buffering=1) as record:
        for step, rows in zip(run.steps(), batches, strict=False):
            began_s = time.monotonic()
            optimizer.zero_grad()
            mine = gang.part(rows)
            loss = torch.nn.functional.mse_loss(model(inputs[mine]), targets[mine]) if len(mine) else None
            if loss is not None:
                loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            loss = gang.average(model, loss, rows=len(mine), of=len(rows))
            optimizer.step()
            if not os.path.exists(hurry):
                time.sleep(training.step_s)
            entry = {"step": step, "loss": float(loss), "ranks": gang.size, "rows": len(mine), "at_s": began_s}
            record.write(json.dumps(entry) + "\n")
            run.report(loss=loss)
            for _ in range(training.polls):
                run.poll()
