"""Layers computed once for all ranks: the mathematics are those of data parallel, on real processes."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from agents.runtime.layer_placement import SplitTraining, measure_layers
from agents.runtime.layer_plan import bytes_per_worker
from tests.support.agents.split_ranks import BATCH, model

STEPS = 12


def _train(tmp_path: Path, *, cut: int, ranks: int) -> dict[str, list[float]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = tmp_path / f"{cut}.json"
    command = [sys.executable, "-m", "tests.support.agents.split_ranks", str(cut), str(STEPS), str(path)]
    own = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": str(ranks), "GLOO_SOCKET_IFNAME": "lo"}
    running = [subprocess.Popen(command, env={**os.environ, **own, "RANK": str(rank)}) for rank in range(ranks)]
    assert [process.wait(timeout=300) for process in running] == [0] * ranks
    found: dict[str, list[float]] = json.loads(path.read_text())
    return found


def test_same_losses_and_weights_as_data_parallel(tmp_path: Path) -> None:
    """Two ranks, cut after the second layer, against no cut at all, and against one process with the whole batch."""
    plain, split = _train(tmp_path, cut=5, ranks=2), _train(tmp_path, cut=2, ranks=2)
    alone = _alone()

    assert split["losses"] == pytest.approx(plain["losses"], abs=1e-6)
    assert split["losses"] == pytest.approx(alone, abs=1e-6)
    assert split["weights"] == pytest.approx(plain["weights"], abs=1e-5)


def _alone() -> list[float]:
    network = model()
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    chance, losses = torch.Generator().manual_seed(5), []
    for _ in range(STEPS):
        inputs = torch.randn(2 * BATCH, 12, generator=chance)
        targets = torch.randint(5, (len(inputs),), generator=chance)
        loss = cross_entropy(network(inputs), targets)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        optimizer.step()
        losses.append(float(loss.detach()))
    return losses


def test_layers_are_measured_as_they_are() -> None:
    """Bytes of weights and of one sample's activation; a moved layer works for all."""
    layers = measure_layers(model(), torch.randn(BATCH, 12), workers=3)

    assert [layer.weight_bytes for layer in layers] == [4 * 13 * 16, 0, 4 * 17 * 64, 0, 4 * 65 * 5]
    assert [layer.activation_bytes for layer in layers] == [64, 64, 256, 256, 20]
    assert all(layer.server_s == 3 * layer.worker_s > 0 for layer in layers)


@pytest.mark.parametrize("cut", [2, 4, 5])
def test_a_step_sends_what_the_plan_says(cut: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Gradients of the lower layers both ways, the activation of the cut up and its gradient down; labels apart."""
    sent: list[int] = []

    def count(tensor: torch.Tensor, *, times: int = 1) -> None:
        if tensor.dim() and tensor.is_floating_point():  # neither the loss nor the labels
            sent.append(times * tensor.numel() * tensor.element_size())

    def gather(tensor: torch.Tensor, parts: list[torch.Tensor], dst: int) -> None:
        count(tensor)
        parts[0].copy_(tensor)

    def scatter(tensor: torch.Tensor, parts: list[torch.Tensor], src: int) -> None:
        count(tensor)
        tensor.copy_(parts[0])

    fakes = {
        "get_world_size": lambda: 1,
        "get_rank": lambda: 0,
        "gather": gather,
        "scatter": scatter,
        "all_reduce": lambda tensor: count(tensor, times=2),
        "broadcast": lambda tensor, src: None,
    }
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.distributed, name, fake)
    training = SplitTraining(model(), cut=cut, loss=cross_entropy, optimizer=lambda some: torch.optim.SGD(some, lr=0.1))
    training.step(torch.randn(BATCH, 12), torch.randint(5, (BATCH,)))

    layers = measure_layers(model(), torch.randn(BATCH, 12), workers=1)
    assert sum(sent) == bytes_per_worker(layers, cut, batch=BATCH)


@pytest.mark.parametrize("layer", [nn.BatchNorm1d(16), nn.Dropout()])
def test_layers_that_depend_on_their_batch_stay_on_the_ranks(layer: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    """Elsewhere they would see other statistics, or draw other numbers."""
    monkeypatch.setattr(torch.distributed, "get_world_size", lambda: 1)
    monkeypatch.setattr(torch.distributed, "get_rank", lambda: 0)

    with pytest.raises(ValueError, match="cut after it"):
        SplitTraining(
            nn.Sequential(nn.Linear(12, 16), layer),
            cut=1,
            loss=cross_entropy,
            optimizer=lambda some: torch.optim.SGD(some, lr=0.1),
        )
