"""The training loop of all workloads: options, optimizer, schedule, log lines, evaluation, checkpoints.

Decides everything but the model and the data. One process trains on one device: ``cuda:0`` where CUDA is granted, else
the granted cores. In a gang each rank takes its part of every mini-batch and the gradients are averaged.
"""

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, SupportsFloat

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from agents.runtime import Run
from agents.runtime.gang import join_gang
from agents.runtime.torch_state import Batches, capture, restore
from agents.workloads.data import DataSet

EVAL_BATCH = 32
ABOUT = {
    "steps": "mini-batches of the whole training",
    "batch": "examples of one mini-batch",
    "width": "channels or features of the narrowest layer",
    "depth": "layers, or blocks of a stage",
    "lr": "learning rate at its peak",
    "rows": "examples that are generated, an eighth of them for evaluation; of text: windows",
    "size": "edge of a picture in pixels, samples of a sound, or characters of a window of text",
    "seed": "of data, first weights, order and dropout",
    "log_every": "steps between two log lines",
    "eval_every": "steps between two evaluations on unseen examples, besides the one at the end; 0: none",
    "checkpoint_every_s": "seconds between two checkpoints",
    "write_steps": "file that gets one line for each trained step: its number and its loss in exact hexadecimal",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """Sizes of one training; every one is an argument of the script. ``ABOUT`` says what each means."""

    steps: int
    batch: int
    width: int
    depth: int
    lr: float
    rows: int
    size: int
    seed: int = 1
    log_every: int = 20
    eval_every: int = 0
    checkpoint_every_s: float = 60.0
    write_steps: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One model with its data.

    Attributes:
        about: One line for ``--help``.
        defaults: Sizes that take a minute or so on one core.
        model: Builds the model; it returns (batch, ..., classes) scores.
        data: Generates the data.
    """

    about: str
    defaults: Options
    model: Callable[[Options], nn.Module]
    data: Callable[[Options], DataSet]


def main(workload: Workload, arguments: Sequence[str] | None = None) -> None:
    """Parse the command line and train."""
    train(workload, parse_options(workload, arguments))


def parse_options(workload: Workload, arguments: Sequence[str] | None = None) -> Options:
    """Return the defaults of the workload, changed by the arguments (those of the process when None)."""
    parser = argparse.ArgumentParser(description=workload.about, formatter_class=argparse.ArgumentDefaultsHelpFormatter)
    for name, about in ABOUT.items():
        default = getattr(workload.defaults, name)
        parser.add_argument("--" + name.replace("_", "-"), type=type(default), default=default, help=about)
    return Options(**vars(parser.parse_args(arguments)))


def train(workload: Workload, options: Options) -> nn.Module:
    """Train, from the checkpoint that the job is to start from if there is one, and return the model."""
    gang = join_gang()
    run = Run(total_steps=options.steps, checkpoint_every_s=options.checkpoint_every_s, quiet=True, gang=gang)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(options.seed)
    data = workload.data(options)
    model = workload.model(options).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=options.lr)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, options.steps, eta_min=options.lr / 20)
    batches = Batches(num_rows=data.num_rows, batch_size=options.batch, seed=options.seed)
    parts: dict[str, Any] = {"optimizer": optimizer, "schedule": schedule, "batches": batches}
    run.on_checkpoint(lambda: capture(model, **parts))
    restore(run.resume(), model, **parts)
    log = StepLog(options=options, first_step=run.step)
    for step, rows in zip(run.steps(), batches, strict=False):
        optimizer.zero_grad()
        mine = gang.part(rows)
        own_loss = None
        if len(mine):
            inputs, targets = data.batch(mine)
            own_loss = loss_of(model, inputs.to(device), targets.to(device))
            own_loss.backward()  # type: ignore[no-untyped-call]  # torch leaves it untyped
        loss = gang.average(model, own_loss, rows=len(mine), of=len(rows))
        optimizer.step()
        schedule.step()
        run.report(loss=loss)
        log.note(step=step, loss=loss)
        done = step + 1
        if options.eval_every and done % options.eval_every == 0 and done < options.steps:
            log.evaluated(done=done, loss=evaluate(model, data, device))
    log.evaluated(done=run.step, loss=evaluate(model, data, device))
    return model


def loss_of(model: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
    """Return the mean cross-entropy over all targets of a batch, in nats."""
    scores: Tensor = model(inputs)
    return cross_entropy(scores.flatten(0, -2), targets.flatten())


@torch.no_grad()
def evaluate(model: nn.Module, data: DataSet, device: torch.device) -> float:
    """Return the loss on rows that training never sees, and leave the model in training mode."""
    model.eval()
    inputs, targets = data.held_out()
    total = 0.0
    for first in range(0, len(inputs), EVAL_BATCH):
        some = inputs[first : first + EVAL_BATCH]
        loss = loss_of(model, some.to(device), targets[first : first + EVAL_BATCH].to(device))
        total += float(loss) * len(some)
    model.train()
    return total / len(inputs)


class StepLog:
    """Prints what people want to see and, when asked, writes down every trained step."""

    def __init__(self, *, options: Options, first_step: int) -> None:
        self._options = options
        self._last_step, self._last_s = first_step, time.monotonic()
        print(f"training from step {first_step} to {options.steps} on {torch.get_num_threads()} threads", flush=True)

    def note(self, *, step: int, loss: SupportsFloat) -> None:
        """Take down one trained step."""
        if self._options.write_steps:
            with open(self._options.write_steps, "a", encoding="ascii") as file:
                file.write(f"{step} {float(loss).hex()}\n")
        done = step + 1
        if done % self._options.log_every == 0 or done == self._options.steps:
            now_s = time.monotonic()
            rate = (done - self._last_step) / max(now_s - self._last_s, 1e-9)
            self._last_step, self._last_s = done, now_s
            print(f"step {done}/{self._options.steps}  loss {float(loss):.4f}  {rate:.2f} steps/s", flush=True)

    def evaluated(self, *, done: int, loss: float) -> None:
        """Print the loss on unseen data."""
        print(f"step {done}/{self._options.steps}  held-out loss {loss:.4f}", flush=True)
