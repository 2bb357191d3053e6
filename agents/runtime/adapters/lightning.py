"""The Trainer of Lightning: it reports, saves whenever it is asked, and stops after that.

    callback = ClusterwebCallback()
    trainer = Trainer(max_steps=1000, callbacks=[callback])
    trainer.fit(model, loader, ckpt_path=callback.newest)

Checkpoints are Lightning's own, with the random numbers, which it leaves out. It goes on within an epoch if the loader
has ``state_dict`` and ``load_state_dict``, as torchdata's StatefulDataLoader has; any other begins its rows anew. All
ranks save and stop at the same step.
"""

import os
from pathlib import Path
from typing import Any

from lightning.pytorch import Callback, LightningModule, Trainer

from agents.runtime.own_group import own_group
from agents.runtime.run import Run
from agents.runtime.torch_state import capture_random, restore_random

KEEP = 2  # as many as the run keeps notes of


class ClusterwebCallback(Callback):  # type: ignore[misc]  # without lightning its class is not known
    """Follows one training.

    Args:
        folder: Of the checkpoints; None = ``checkpoints`` in the directory of the job, or in the present one.
        checkpoint_every_s: Seconds between two of them; None = only when asked.
    """

    def __init__(self, *, folder: Path | None = None, checkpoint_every_s: float | None = 300.0) -> None:
        self._folder = Path(os.environ.get("CLUSTERWEB_JOB_DIR", ""), "checkpoints") if folder is None else folder
        self._every_s = checkpoint_every_s
        found = Run(quiet=True).resume()  # the group of all ranks is formed later, by the Trainer
        self._newest: str | None = None if found is None else found["path"]
        self._run: Run
        self._asked = ""
        self._kept: list[Path] = []
        self._random: dict[str, Any] | None = None

    @property
    def newest(self) -> str | None:
        """Return the newest whole checkpoint for ``Trainer.fit(ckpt_path=...)``; None = begin."""
        return self._newest

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Say where the training begins."""
        self._run = Run(checkpoint_every_s=self._every_s, gang=own_group(), quiet=True)
        self._run.on_checkpoint(lambda: {"path": self._newest})
        self._run.resume()
        self._ask(trainer)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        """Go on with the random numbers of the checkpoint: what starts a loader has drawn some meanwhile."""
        if self._random is not None and trainer.world_size == 1:
            restore_random(self._random)
        self._random = None

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Count a step; save, and stop, where that is asked."""
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        self._run.report(loss=loss)
        self._ask(trainer)
        self._do_asked(trainer)

    def on_validation_batch_end(self, trainer: Trainer, *arguments: Any, **named: Any) -> None:
        """Answer in an evaluation: stop at once where its step is saved, else when it is over."""
        if trainer.sanity_checking or trainer.state.fn != "fit":
            return
        self._ask(trainer)
        if self._asked == "stop" and self._run.saved_step == trainer.global_step:
            self._run.leave()

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Do what was asked meanwhile."""
        if not trainer.sanity_checking and trainer.state.fn == "fit":
            self._do_asked(trainer)

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Say that it is complete."""
        self._run.complete(saves=False)

    def state_dict(self) -> dict[str, Any]:
        """Return the random numbers, which Lightning keeps in the checkpoint."""
        return capture_random()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take them from a checkpoint."""
        self._random = state_dict

    def _ask(self, trainer: Trainer) -> None:
        total = trainer.estimated_stepping_batches
        asked = self._run.ask(trainer.global_step, total_steps=int(total) if total != float("inf") else None)
        self._asked = "stop" if "stop" in (asked, self._asked) else asked or self._asked

    def _do_asked(self, trainer: Trainer) -> None:
        asked, self._asked = self._asked, ""
        if not asked:
            return
        if self._run.saved_step != trainer.global_step:
            self._save(trainer)
        if asked == "stop":
            self._run.leave()

    def _save(self, trainer: Trainer) -> None:
        """Let all ranks write one checkpoint, and note it; older ones that no note names go."""
        if self._newest is not None and Path(self._newest) not in self._kept:
            self._kept.append(Path(self._newest))
        path = self._folder / f"step-{trainer.global_step:06d}.ckpt"
        trainer.save_checkpoint(path)
        self._newest = str(path)
        self._run.checkpoint()
        if trainer.is_global_zero:
            for old in self._kept[:-KEEP]:
                old.unlink(missing_ok=True)
