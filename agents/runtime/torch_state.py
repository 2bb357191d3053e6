"""All that a torch training needs to continue as if it had never been interrupted, to the bit.

Decides what belongs to the state: model, optimizer, learning-rate schedule, the random numbers of torch, CUDA, Python
and numpy, and the place in the data. Equal bits need the same device, number of threads and torch version on both
sides. Everything in it can be loaded with ``weights_only=True``; so numpy's state is kept as a tensor.
"""

import random
import sys
from collections.abc import Iterator
from typing import Any, Protocol

import torch

from agents.runtime.errors import StateMismatch


class Stateful(Protocol):
    """Anything with a state of plain values and tensors: optimizers, schedules, gradient scalers, ``Batches``."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""

    def load_state_dict(self, state_dict: dict[str, Any], /) -> Any:
        """Take the state over."""


def capture(model: torch.nn.Module, **parts: Stateful) -> dict[str, Any]:
    """Return the state of a training for ``Run.on_checkpoint``.

    Its tensors are those of the model, not copies: write it out before training goes on.

    Args:
        model: The module that is trained.
        parts: Optimizer, schedule, batches and whatever else has a ``state_dict``, by names of your choice.
    """
    return {
        "model": model.state_dict(),
        "parts": {name: part.state_dict() for name, part in parts.items()},
        "random": capture_random(),
    }


def restore(state: dict[str, Any] | None, model: torch.nn.Module, **parts: Stateful) -> None:
    """Put a state back into objects built the same way as those it was captured from; with None nothing happens.

    Args:
        state: What ``Run.resume`` returned.
        model: As for ``capture``.
        parts: As for ``capture``, by the same names.
    Raises:
        StateMismatch: The names are others than those of ``capture``.
    """
    if state is None:
        return
    if state["parts"].keys() != parts.keys():
        raise StateMismatch(f"checkpoint holds {sorted(state['parts'])}, the script restores {sorted(parts)}")
    model.load_state_dict(state["model"])
    for name, part in parts.items():
        part.load_state_dict(state["parts"][name])
    restore_random(state["random"])


def capture_random() -> dict[str, Any]:
    """Return the random numbers of torch, CUDA, Python and, if it is in use, numpy."""
    state: dict[str, Any] = {"torch": torch.get_rng_state(), "python": random.getstate()}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        _, keys, position, has_gauss, gauss = numpy.random.get_state()
        state["numpy"] = (torch.tensor(keys.tolist()), int(position), int(has_gauss), float(gauss))
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def restore_random(state: dict[str, Any]) -> None:
    """Go on with them."""
    torch.set_rng_state(state["torch"])
    random.setstate(state["python"])
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" in state:
        keys, position, has_gauss, gauss = state["numpy"]
        numpy.random.set_state(("MT19937", keys.tolist(), position, has_gauss, gauss))
    # With another number of GPUs than before there is no equal continuation; torch's fresh seeds are as good.
    if torch.cuda.is_available() and len(state.get("cuda", ())) == torch.cuda.device_count():
        torch.cuda.set_rng_state_all(state["cuda"])


class Batches(Iterator[torch.Tensor]):
    """Endless mini-batches of row numbers, shuffled anew in every epoch, that can stop and go on at any place.

    The order of an epoch depends on seed and epoch alone, so the place in the data is two numbers. Rows that fill no
    whole batch are left out of their epoch. Draw one batch per step, as in ``zip(run.steps(), batches)``; a loader that
    reads ahead would put the place ahead of the training.

    Args:
        num_rows: Rows of the data set.
        batch_size: Rows of one batch, at most ``num_rows``.
        seed: Of the order.
    """

    def __init__(self, *, num_rows: int, batch_size: int, seed: int) -> None:
        if not 1 <= batch_size <= num_rows:
            raise ValueError(f"batch_size {batch_size} does not fit 1..{num_rows} rows")
        self._num_rows, self._batch_size, self._seed = num_rows, batch_size, seed
        self._epoch, self._offset = 0, 0
        self._order = self._shuffled()

    def __next__(self) -> torch.Tensor:
        """Return (batch_size,) row numbers."""
        if self._offset + self._batch_size > self._num_rows:
            self._epoch, self._offset = self._epoch + 1, 0
            self._order = self._shuffled()
        rows = self._order[self._offset : self._offset + self._batch_size]
        self._offset += self._batch_size
        return rows

    @property
    def epoch(self) -> int:
        """Which pass over the data the newest batch belongs to, from 0."""
        return self._epoch

    def state_dict(self) -> dict[str, Any]:
        """Return the place in the data."""
        return {"num_rows": self._num_rows, "seed": self._seed, "epoch": self._epoch, "offset": self._offset}

    def load_state_dict(self, state_dict: dict[str, Any], /) -> None:
        """Go to a place. Raises StateMismatch when it lies in another data set or another order."""
        if (state_dict["num_rows"], state_dict["seed"]) != (self._num_rows, self._seed):
            raise StateMismatch(
                f"checkpoint read {state_dict['num_rows']} rows with seed {state_dict['seed']}, "
                f"the script reads {self._num_rows} with {self._seed}"
            )
        self._epoch, self._offset = state_dict["epoch"], state_dict["offset"]
        self._order = self._shuffled()

    def _shuffled(self) -> torch.Tensor:
        # A string seeds Python's generator by its hash (SHA-512), so neighbouring seeds and epochs are unrelated.
        seed = random.Random(f"{self._seed}/{self._epoch}").getrandbits(63)
        return torch.randperm(self._num_rows, generator=torch.Generator().manual_seed(seed))
