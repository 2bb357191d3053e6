"""A workload that waits for each mini-batch: ``python -m benchmarks.fidelity.reading KIND SECONDS [OPTIONS]``.

A job that waits for a GPU or a slow disk leaves most of its core idle. Jobs that used all of it would slow down the
product and each other on this machine with two cores, and no replay knows by how much.
"""

import sys
import time
from dataclasses import dataclass, replace
from importlib import import_module

from torch import Tensor

from agents.workloads.data import DataSet
from agents.workloads.loop import Workload, main


@dataclass(frozen=True, slots=True, kw_only=True)
class SlowlyRead:
    """A data set from which each batch takes ``read_s`` seconds."""

    data: DataSet
    read_s: float

    @property
    def num_rows(self) -> int:
        return self.data.num_rows

    def batch(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        time.sleep(self.read_s)
        return self.data.batch(rows)

    def held_out(self) -> tuple[Tensor, Tensor]:
        return self.data.held_out()


if __name__ == "__main__":
    workload: Workload = import_module(f"agents.workloads.{sys.argv[1]}").WORKLOAD
    read_s = float(sys.argv[2])
    waits = replace(workload, data=lambda options: SlowlyRead(data=workload.data(options), read_s=read_s))
    main(waits, sys.argv[3:])
