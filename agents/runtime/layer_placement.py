"""Data-parallel training whose parameter-heavy layers are computed once, by one rank, for the batches of all.

    layers = measure_layers(model, sample, workers=4)
    cut = best_cut(layers, Setting(workers=4, batch=32, worker_bytes_per_s=1e9, server_bytes_per_s=1e9))
    training = SplitTraining(model, cut=cut, loss=cross_entropy, optimizer=lambda p: SGD(p, lr=0.01))
    for inputs, targets in batches:
        loss = training.step(inputs, targets)     # the mean over the batches of all ranks, on every rank

The mathematics are those of data parallel: the moved layers see the batches of all ranks one after the other. Layers
whose result depends on the rest of the batch (BatchNorm) and layers that draw (Dropout) belong on the ranks.

Source: Park et al., RALP, arXiv 1901.05803; see ``layer_plan.py``. Differs: the ranks sum their gradients among each
other (all-reduce) instead of over a parameter server, and rank 0 is the one that computes the moved layers.
"""

import time
from collections.abc import Callable, Iterable
from itertools import chain
from statistics import median

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.optim import Optimizer

from agents.runtime.layer_plan import Layer

DROPPED_STEPS, MEASURED_STEPS = 3, 7
BATCH_NORM = (nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d)
HOME = 0  # the rank that computes the moved layers


def measure_layers(model: nn.Sequential, sample: Tensor, *, workers: int) -> list[Layer]:
    """Return what each layer of a chain costs, by a few steps on this process.

    Args:
        model: Left as it was, but for gradients, which are cleared, and the statistics of BatchNorm.
        sample: The inputs of one worker's mini-batch.
        workers: For how many of them a moved layer works.
    """
    times: list[list[float]] = [[] for _ in model]
    sizes: list[float] = []
    for step in range(DROPPED_STEPS + MEASURED_STEPS):
        sizes, inputs = [], sample
        for at, layer in enumerate(model):
            inputs = inputs.detach().requires_grad_(inputs.is_floating_point())
            began_s = time.perf_counter()
            outputs = layer(inputs)
            outputs.sum().backward()
            if step >= DROPPED_STEPS:
                times[at].append(time.perf_counter() - began_s)
            sizes.append(outputs[0].numel() * outputs.element_size())
            inputs = outputs
    model.zero_grad(set_to_none=True)
    return [
        Layer(
            weight_bytes=float(sum(weight.numel() * weight.element_size() for weight in layer.parameters())),
            activation_bytes=size,
            worker_s=median(took_s),
            server_s=workers * median(took_s),
        )
        for layer, size, took_s in zip(model, sizes, times, strict=True)
    ]


class SplitTraining:
    """One rank of a training whose layers after a cut are on rank 0 alone."""

    def __init__(
        self,
        model: nn.Sequential,
        *,
        cut: int,
        loss: Callable[[Tensor, Tensor], Tensor],
        optimizer: Callable[[Iterable[nn.Parameter]], Optimizer],
    ) -> None:
        """Take the model over; all ranks give the same one, with batches of the same size.

        Args:
            model: The whole chain.
            cut: Layers that stay on every rank, at least 1; all of them is plain data parallel.
            loss: Mean over a batch.
            optimizer: Makes one for some parameters.
        Raises:
            ValueError: A layer after the cut depends on its batch or draws at random.
        """
        self._lower, self._upper = nn.Sequential(*list(model)[:cut]), nn.Sequential(*list(model)[cut:])
        for layer in self._upper.modules():
            if isinstance(layer, (*BATCH_NORM, nn.Dropout)):
                raise ValueError(f"{type(layer).__name__} cannot be computed for all ranks at once: cut after it")
        self._loss, self._ranks, self._is_home = loss, dist.get_world_size(), dist.get_rank() == HOME
        self._lower_steps = optimizer(self._lower.parameters())
        here = len(self._upper) > 0 and self._is_home
        self._upper_steps = optimizer(self._upper.parameters()) if here else None

    def step(self, inputs: Tensor, targets: Tensor) -> float:
        """Train on one mini-batch of each rank; return the mean loss of all of them, the same on every rank."""
        self._lower_steps.zero_grad(set_to_none=True)
        outputs: Tensor = self._lower(inputs)
        if len(self._upper):
            loss, gradient = self._at_home(outputs.detach(), targets)
            outputs.backward(gradient)  # type: ignore[no-untyped-call]  # torch leaves it untyped
        else:
            mean = self._loss(outputs, targets) / self._ranks
            mean.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            loss = mean.detach()
            dist.all_reduce(loss)
        self._sum_gradients()
        self._lower_steps.step()
        return float(loss)

    def _at_home(self, outputs: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
        """Return the loss over the batches of all ranks, and its gradient at this rank's outputs."""
        gradient, loss = torch.empty_like(outputs), torch.zeros(())
        if self._upper_steps is None:
            dist.gather(outputs, dst=HOME)
            dist.gather(targets, dst=HOME)
            dist.scatter(gradient, src=HOME)
        else:
            activations = [torch.empty_like(outputs) for _ in range(self._ranks)]
            labels = [torch.empty_like(targets) for _ in range(self._ranks)]
            dist.gather(outputs, activations, dst=HOME)
            dist.gather(targets, labels, dst=HOME)
            whole = torch.cat(activations).requires_grad_()
            self._upper_steps.zero_grad(set_to_none=True)
            mean = self._loss(self._upper(whole), torch.cat(labels))
            mean.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
            self._upper_steps.step()
            assert whole.grad is not None
            dist.scatter(gradient, [part.contiguous() for part in whole.grad.chunk(self._ranks)], src=HOME)
            loss = mean.detach()
        dist.broadcast(loss, src=HOME)
        return loss, gradient

    def _sum_gradients(self) -> None:
        """Add up the gradients of all ranks: each is already that of the mean over all batches."""
        gradients = [weight.grad for weight in self._lower.parameters() if weight.grad is not None]
        if not gradients:
            return
        flat = torch.cat([gradient.flatten() for gradient in gradients])
        dist.all_reduce(flat)
        parts = flat.split([one.numel() for one in gradients])  # type: ignore[no-untyped-call]  # torch leaves it untyped
        for gradient, summed in zip(gradients, parts, strict=True):
            gradient.copy_(summed.view_as(gradient))

    def parameters(self) -> Iterable[nn.Parameter]:
        """Return the parameters that this rank keeps up to date."""
        return chain(self._lower.parameters(), self._upper.parameters() if self._upper_steps is not None else ())
