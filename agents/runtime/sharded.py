"""Checkpoints of a model that is split over ranks (FSDP): every rank writes its shards, together they count or not.

    model = fully_shard(build())                  # after the group is there
    run = Run(total_steps=1000, gang=own_group())
    sharded = Sharded(run, model, optimizer, batches=batches)
    run.on_checkpoint(sharded.capture, every_rank=True)
    sharded.restore(run.resume())

The shards are written by ``torch.distributed.checkpoint`` to a folder that all ranks share. It gets its name when the
last of them is done, and only then the leader writes the checkpoint of the run, which names it: the manifest. A folder
that no manifest names is never read. Ranks may be as many as they like when they resume.
"""

import os
import re
import shutil
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import load, save  # type: ignore[attr-defined]  # public, not listed
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

from agents.runtime.run import Run
from agents.runtime.torch_state import Stateful

KEEP = 2  # as many as the run keeps manifests
_OWN = re.compile(r"step-\d{6,}|\.step-\d{6,}\.partial")  # a script may keep other things beside them


class Sharded:
    """The state of one split training."""

    def __init__(
        self,
        run: Run,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        folder: Path | None = None,
        **parts: Stateful,
    ) -> None:
        """Name what belongs to it.

        Args:
            run: Whose steps the checkpoints count.
            model: Split over the ranks of the default group.
            optimizer: Of its parameters.
            folder: The same for all ranks; None = ``shards`` in the directory of the job, or in the present one.
            parts: What every rank has alike: schedule, batches.
        """
        base = Path(os.environ.get("CLUSTERWEB_JOB_DIR", ""))
        self._folder = base / "shards" if folder is None else folder
        self._run, self._model, self._optimizer, self._parts = run, model, optimizer, parts
        self._named: list[str] = []  # by manifests, oldest first

    def capture(self) -> dict[str, Any]:
        """Write the shards of this rank, wait for those of all others, and return what the manifest holds."""
        name = _name(self._run.step)
        partial, whole = self._folder / f".{name}.partial", self._folder / name
        is_leader = dist.get_rank() == 0
        if is_leader:
            self._drop_unnamed()
            partial.mkdir(parents=True)
        dist.barrier()
        model, optimizer = get_state_dict(self._model, self._optimizer)
        save({"model": model, "optimizer": optimizer}, checkpoint_id=partial)
        dist.barrier()
        if is_leader:
            os.rename(partial, whole)
        return {"shards": name, "parts": {name: part.state_dict() for name, part in self._parts.items()}}

    def restore(self, state: dict[str, Any] | None) -> None:
        """Put the state back that a manifest names; with None nothing happens. All ranks call it."""
        if state is None:
            return
        model, optimizer = get_state_dict(self._model, self._optimizer)
        found: dict[str, Any] = {"model": model, "optimizer": optimizer}
        load(found, checkpoint_id=self._folder / state["shards"])
        set_state_dict(
            self._model, self._optimizer, model_state_dict=found["model"], optim_state_dict=found["optimizer"]
        )
        for name, part in self._parts.items():
            part.load_state_dict(state["parts"][name])

    def _drop_unnamed(self) -> None:
        """Delete what no kept manifest names: older shards, and those of attempts that ended before theirs."""
        if self._run.saved_step is not None and _name(self._run.saved_step) not in self._named:
            self._named.append(_name(self._run.saved_step))
        for old in self._folder.glob("*step-*"):
            if _OWN.fullmatch(old.name) and old.name not in self._named[-KEEP:]:
                shutil.rmtree(old)


def _name(step: int) -> str:
    return f"step-{step:06d}"
