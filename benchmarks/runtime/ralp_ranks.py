"""Start the ranks of one run in this network and train: ``ralp_ranks KIND WAY RANKS STEPS DROPPED FILE``."""

import json
import multiprocessing
import os
import sys
import time
from pathlib import Path
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel

from agents.runtime.layer_placement import SplitTraining, measure_layers
from agents.runtime.layer_plan import Setting, best_cut

BATCH, CLASSES, SIZE_PX = 16, 100, 48
LINK_BYTES_PER_S = 1e9 / 8
ABOUT = {"heavy": "AlexNet-like", "light": "convolutions alone"}


def network(kind: str) -> nn.Sequential:
    """Return the same network on every rank."""
    torch.manual_seed(1)
    if kind == "light":  # large maps all the way: fewer bytes of weights than of activations after any layer
        return nn.Sequential(
            nn.Sequential(nn.Conv2d(3, 32, 5, stride=2, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
            nn.Sequential(nn.Conv2d(32, 64, 3, padding=1), nn.ReLU()),
            nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()),
            nn.Sequential(nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()),
            nn.Sequential(nn.AvgPool2d(12), nn.Flatten(), nn.Linear(64, CLASSES)),
        )
    convolutions = [
        nn.Sequential(nn.Conv2d(3, 32, 5, stride=2, padding=2), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Sequential(nn.Conv2d(32, 96, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)),
        nn.Sequential(nn.Conv2d(96, 128, 3, padding=1), nn.ReLU()),
        nn.Sequential(nn.Conv2d(128, 128, 3, padding=1), nn.ReLU()),
    ]
    return nn.Sequential(
        *convolutions,
        nn.Flatten(),
        nn.Sequential(nn.Linear(128 * 36, 3072), nn.ReLU()),
        nn.Sequential(nn.Linear(3072, 640), nn.ReLU()),
        nn.Linear(640, CLASSES),
    )


def batches(rank: int, ranks: int, steps: int) -> list[tuple[Tensor, Tensor]]:
    """Return this rank's part of the same pictures for both ways."""
    chance = torch.Generator().manual_seed(7)
    found = []
    for _ in range(steps):
        inputs = torch.randn(ranks * BATCH, 3, SIZE_PX, SIZE_PX, generator=chance)
        targets = torch.randint(CLASSES, (ranks * BATCH,), generator=chance)
        mine = slice(rank * BATCH, (rank + 1) * BATCH)
        found.append((inputs[mine].contiguous(), targets[mine].contiguous()))
    return found


def wire_bytes() -> int:
    """Return the bytes that the loopback of this network has sent."""
    for line in Path("/proc/net/dev").read_text(encoding="ascii").splitlines():
        name, _, numbers = line.partition(":")
        if name.strip() == "lo":
            return int(numbers.split()[8])
    raise RuntimeError("there is no loopback")


def rank_main(kind: str, way: str, rank: int, ranks: int, steps: int, dropped: int, path: str) -> None:
    """Train as one rank."""
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511", "GLOO_SOCKET_IFNAME": "lo"}
    torch.set_num_threads(1)
    os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[rank % len(os.sched_getaffinity(0))]})
    dist.init_process_group("gloo", rank=rank, world_size=ranks)
    model = network(kind)
    cut = _cut(model, ranks)
    split = SplitTraining(model, cut=cut, loss=cross_entropy, optimizer=_optimizer) if way == "split" else None
    plain = None if split is not None else DistributedDataParallel(model)
    optimizer = _optimizer(model.parameters())
    times_s: list[float] = []
    losses: list[float] = []
    sent = 0
    for step, (inputs, targets) in enumerate(batches(rank, ranks, steps)):
        if step == dropped:
            dist.barrier()
            sent = wire_bytes()
        began_s = time.perf_counter()
        if split is not None:
            loss = split.step(inputs, targets)
        else:
            assert plain is not None
            loss = _plain_step(plain, optimizer, inputs, targets)
        times_s.append(time.perf_counter() - began_s)
        losses.append(loss)
    dist.barrier()
    if rank == 0:
        weights = sum(weight.numel() for weight in model.parameters())
        moved = sum(weight.numel() for layer in list(model)[cut:] for weight in layer.parameters())
        found = {
            "about": f"{ABOUT[kind]}, {SIZE_PX} px, {weights / 1e6:.1f} million parameters",
            "cut": cut,
            "layers": len(model),
            "moved_frac": moved / weights,
            "wire_mb": (wire_bytes() - sent) / (steps - dropped) / 1e6,
            "step_ms": 1000 * median(times_s[dropped:]),
            "losses": losses,
        }
        Path(path).write_text(json.dumps(found), encoding="utf-8")
    dist.destroy_process_group()


def _optimizer(parameters: "object") -> torch.optim.SGD:
    return torch.optim.SGD(parameters, lr=0.01)  # type: ignore[arg-type]  # an iterable of parameters


def _cut(model: nn.Sequential, ranks: int) -> int:
    """Return the plan's cut; rank 0 measures for all."""
    link = Setting(workers=ranks, batch=BATCH, worker_bytes_per_s=LINK_BYTES_PER_S, server_bytes_per_s=LINK_BYTES_PER_S)
    chosen = torch.zeros(1, dtype=torch.int64)
    if dist.get_rank() == 0:
        chosen[0] = best_cut(measure_layers(model, torch.randn(BATCH, 3, SIZE_PX, SIZE_PX), workers=ranks), link)
    dist.broadcast(chosen, src=0)
    return int(chosen)


def _plain_step(model: DistributedDataParallel, optimizer: torch.optim.SGD, inputs: Tensor, targets: Tensor) -> float:
    loss = cross_entropy(model(inputs), targets)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
    optimizer.step()
    mean = loss.detach() / dist.get_world_size()
    dist.all_reduce(mean)
    return float(mean)


def main(kind: str, way: str, ranks: int, steps: int, dropped: int, path: str) -> None:
    """Start the ranks and wait for them."""
    context = multiprocessing.get_context("spawn")
    running = [
        context.Process(target=rank_main, args=(kind, way, rank, ranks, steps, dropped, path)) for rank in range(ranks)
    ]
    for process in running:
        process.start()
    for process in running:
        process.join()
    sys.exit(max(process.exitcode or 0 for process in running))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), sys.argv[6])
