"""A training that reads pictures from slow storage: ``profiler_job ITEMS STORAGE_BYTES_PER_S PREP_ROUNDS``.

Eight readers wait for one storage of the given rate, decode (compression rounds, on the CPU) and hand mini-batches to a
small model. It trains until it is ended.
"""

import fcntl
import os
import struct
import sys
import time
import zlib
from collections.abc import Iterator
from pathlib import Path

import torch
from torch.utils.data import DataLoader, Sampler

from agents.runtime import Run
from agents.runtime.dataset import CachedDataset

ITEM_BYTES, BATCH, READERS = 64 * 1024, 2, 8
CLOCK = struct.Struct("<d")


class Storage:
    """Hands out items one after the other, at a rate, whatever the processes that wait for them do meanwhile."""

    def __init__(self, rate_bytes_per_s: float) -> None:
        self._rate_bytes_per_s = rate_bytes_per_s
        self._content = os.urandom(ITEM_BYTES)

    def read(self, key: str) -> bytes:
        """Wait until all earlier requests have their items, then for this one."""
        with Path("storage").open("a+b") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            file.seek(0)
            content, now_s = file.read(), time.monotonic()
            done_s = max(now_s, CLOCK.unpack(content)[0] if content else now_s) + ITEM_BYTES / self._rate_bytes_per_s
            file.truncate(0)
            file.write(CLOCK.pack(done_s))
            file.flush()
            fcntl.flock(file, fcntl.LOCK_UN)
        time.sleep(done_s - now_s)
        return self._content


class Epochs(Sampler[int]):
    """All items in an order of their own, again and again: readers do not pause at the end of an epoch.

    Epochs of real data are long beside what readers have prepared ahead; those of a few seconds are not.
    """

    def __init__(self, items: int) -> None:
        self._items = items

    def __iter__(self) -> Iterator[int]:
        """Yield numbers of items without end."""
        while True:
            yield from torch.randperm(self._items).tolist()


class Decode:
    """Takes CPU time and makes a few numbers."""

    def __init__(self, rounds: int) -> None:
        self._rounds = rounds

    def __call__(self, content: bytes) -> torch.Tensor:
        """Return what the model sees."""
        for _ in range(self._rounds):
            zlib.compress(content, 1)
        return torch.tensor(list(content[:16]), dtype=torch.float32) / 255


def main(items: int, rate_bytes_per_s: float, rounds: int) -> None:
    """Train until ended."""
    data = CachedDataset(
        name="pictures",
        keys=[str(number) for number in range(items)],
        read=Storage(rate_bytes_per_s).read,
        decode=Decode(rounds),
        working_bytes=0,
    )
    loader = DataLoader(data, batch_size=BATCH, sampler=Epochs(items), num_workers=READERS)
    model = torch.nn.Linear(16, 4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    run = Run(quiet=True, checkpoint_every_s=None)
    with Path("steps").open("w", encoding="ascii", buffering=1) as steps:
        for batch in loader:
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            run.report(loss=loss)
            steps.write(f"{run.step}\n")
            run.boundary()


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3]))
