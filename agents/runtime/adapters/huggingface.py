"""The Trainer of Hugging Face transformers: it reports, and saves before it stops; nothing else of a script changes.

    callback = ClusterwebCallback()               # after TrainingArguments, which form the process group
    trainer = Trainer(model=model, args=args, train_dataset=rows, callbacks=[callback])
    trainer.train(resume_from_checkpoint=callback.newest)

The Trainer writes its own checkpoints. The callback notes each that is whole, so that one that was cut off by a failure
is not resumed from. All ranks save and stop at the same step.
"""

import os
from typing import Any

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from agents.runtime.own_group import own_group
from agents.runtime.run import Run


class ClusterwebCallback(TrainerCallback):  # type: ignore[misc]  # without transformers its class is not known
    """Follows one training.

    Args:
        checkpoint_every_s: Seconds after which the Trainer is told to save, beside its own ``save_strategy``.
    """

    def __init__(self, *, checkpoint_every_s: float | None = 300.0) -> None:
        self._run = Run(checkpoint_every_s=checkpoint_every_s, gang=own_group(), quiet=True)
        self._folder = ""
        self._run.on_checkpoint(lambda: {"folder": self._folder})
        self._folder = (self._run.resume() or {"folder": ""})["folder"]
        self._stops = False

    @property
    def newest(self) -> str | None:
        """Return the newest whole checkpoint for ``Trainer.train(resume_from_checkpoint=...)``; None = begin."""
        return self._folder or None

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Say where the training begins."""
        self._ask(state, control)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Count a step; save, and stop after it, where that is asked."""
        self._ask(state, control)

    def on_prediction_step(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Answer in an evaluation: stop at once where its step is saved, else when it has been evaluated and saved."""
        self._ask(state, control)
        if self._stops and self._run.saved_step == state.global_step:
            self._run.leave()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        """Take the loss over."""
        if logs and "loss" in logs:
            self._run.report(loss=float(logs["loss"]))

    def on_save(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Note the checkpoint that all ranks have just written, and leave if that was asked."""
        self._folder = os.path.join(args.output_dir, f"checkpoint-{state.global_step}")
        self._run.checkpoint()
        if self._stops:
            self._run.leave()

    def on_train_end(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        """Say that it is complete."""
        self._run.complete(saves=False)

    def _ask(self, state: TrainerState, control: TrainerControl) -> None:
        asked = self._run.ask(state.global_step, total_steps=state.max_steps)
        if asked is not None:
            control.should_save = True
        if asked == "stop":
            self._stops = control.should_training_stop = True
