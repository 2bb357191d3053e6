"""Trains all workloads in one process, so that the tests pay for importing torch once: ``workload_driver PHASE DIR``.

``interrupt`` trains each one to the end and, from scratch, to a requested stop in the middle; ``resume`` continues the
stopped ones. Each training gets a folder ``DIR/<workload>/<full|stopped|resumed>`` with the trained steps and, when it
ended, a fingerprint of all that its last checkpoint holds.
"""

import hashlib
import importlib
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from agents.runtime import Run
from agents.workloads import WORKLOADS
from agents.workloads.data import DataSet
from agents.workloads.loop import Options, Workload, train
from tests.support.agents.runtime_job import JobFolder

STEPS = 60
STOP_IN_STEP = 22
TINY: dict[str, dict[str, Any]] = {
    "resnet": {"width": 4, "depth": 1, "size": 16, "batch": 16, "rows": 200, "lr": 0.01},
    "mobilenet": {"width": 8, "depth": 1, "size": 16, "batch": 16, "rows": 200, "lr": 0.02},
    "lstm": {"width": 32, "depth": 2, "size": 24, "batch": 16, "rows": 200, "lr": 0.02},
    "transformer": {"width": 32, "depth": 2, "size": 24, "batch": 16, "rows": 200, "lr": 0.01},
    "m5": {"width": 8, "depth": 2, "size": 2048, "batch": 16, "rows": 200, "lr": 0.01},
}


@dataclass(frozen=True, slots=True)
class AskingData:
    """Data that ask the job to stop when a certain batch is read: in the middle of a step."""

    data: DataSet
    ask: Callable[[], None]
    in_step: int
    read: list[int]

    @property
    def num_rows(self) -> int:
        return self.data.num_rows

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        if len(self.read) == self.in_step:
            self.ask()
        self.read.append(len(rows))
        return self.data.batch(rows)

    def held_out(self) -> tuple[Tensor, Tensor]:
        return self.data.held_out()


def load(name: str) -> Workload:
    workload: Workload = importlib.import_module(f"agents.workloads.{name}").WORKLOAD
    return workload


def tiny_options(name: str, *, write_steps: Path) -> Options:
    return replace(load(name).defaults, steps=STEPS, write_steps=str(write_steps), **TINY[name])


def asking(workload: Workload, folder: JobFolder) -> Workload:
    def data(options: Options) -> DataSet:
        return AskingData(workload.data(options), lambda: folder.ask(1, "stop"), STOP_IN_STEP, [])

    return replace(workload, data=data)


def fingerprint(value: object) -> str:
    """Return a hash over all tensors and values of a state, by the bits."""
    if isinstance(value, Tensor):
        content = f"{value.dtype} {tuple(value.shape)}".encode() + value.contiguous().numpy().tobytes()
    elif isinstance(value, dict):
        content = "".join(f"{key} {fingerprint(value[key])} " for key in sorted(value, key=str)).encode()
    elif isinstance(value, list | tuple):
        content = "".join(fingerprint(item) for item in value).encode()
    else:
        content = (value.hex() if isinstance(value, float) else repr(value)).encode()
    return hashlib.sha256(content).hexdigest()


def run_one(name: str, root: Path, kind: str, *, resume: Path | None = None) -> None:
    """Train one workload from scratch, as a fresh process would, and leave its fingerprint."""
    folder = JobFolder.create(root / name / kind)
    os.environ |= folder.environ(resume=resume)
    workload = load(name)
    try:
        train(
            asking(workload, folder) if kind == "stopped" else workload,
            tiny_options(name, write_steps=folder.path / "steps"),
        )
    except SystemExit as ended:
        (folder.path / "exit_code").write_text(str(ended.code))
    state = Run(environ=folder.environ(resume=folder.checkpoints()[-1])).resume() or {}
    (folder.path / "fingerprint").write_text(fingerprint(state))
    (folder.path / "weights").write_text(fingerprint(state["model"]))


def main(phase: str, root: Path) -> None:
    for name in WORKLOADS:
        if phase == "interrupt":
            run_one(name, root, "full")
            torch.rand(7)  # nothing of the first training may help the second
            run_one(name, root, "stopped")
        else:
            stopped = JobFolder(root / name / "stopped")
            run_one(name, root, "resumed", resume=stopped.checkpoints()[-1])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
