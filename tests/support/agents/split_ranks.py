"""Ranks that train one model by data parallel, or with its last layers on rank 0: ``split_ranks CUT STEPS FILE``.

Rank, size, address and port come from the environment, as torch.distributed wants them. Rank 0 writes the losses and
the sum of the parameters that it keeps.
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.functional import cross_entropy

from agents.runtime.layer_placement import SplitTraining

BATCH = 8


def model() -> nn.Sequential:
    """Return the same network on every rank."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 5))


def main(cut: int, steps: int, path: Path) -> None:
    """Train."""
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    training = SplitTraining(model(), cut=cut, loss=cross_entropy, optimizer=lambda some: torch.optim.SGD(some, lr=0.1))
    chance = torch.Generator().manual_seed(5)
    losses = []
    for _ in range(steps):
        inputs = torch.randn(BATCH * dist.get_world_size(), 12, generator=chance)
        targets = torch.randint(5, (len(inputs),), generator=chance)
        mine = slice(dist.get_rank() * BATCH, (dist.get_rank() + 1) * BATCH)
        losses.append(training.step(inputs[mine], targets[mine]))
    if dist.get_rank() == 0:
        kept = [float(weight.detach().double().sum()) for weight in training.parameters()]
        path.write_text(json.dumps({"losses": losses, "weights": kept}))
    dist.barrier()  # torch aborts a rank whose peer hangs up while it still cleans up
    dist.destroy_process_group()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
