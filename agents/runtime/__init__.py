"""The small library inside a training script: progress, checkpoints, and stopping at the right moment.

It needs nothing but the standard library, and a script that uses it runs without Clusterweb as well: then it only
prints its progress. Inside Clusterweb it reports step, loss and speed, writes a checkpoint every few minutes and
whenever one is asked for, and continues from the newest one after a preemption, a suspension or a lost server::

    import json, random
    from agents.runtime import Run

    model = {"w": 0.0}
    run = Run(total_steps=1000, checkpoint_every_s=60)
    model.update(run.resume() or {})              # None: start new
    run.on_checkpoint(lambda: model)              # called between two steps, never in the middle of one

    for step in run.steps():                      # continues where the checkpoint left off
        x = random.random()
        error = model["w"] * x - 3 * x
        model["w"] -= 0.1 * error * x
        run.report(loss=error * error)            # cheap: call it at every step

When the job is asked to stop (a request of the scheduler or SIGTERM) the loop writes a checkpoint between two steps and
ends the process with code 75; ``with`` and ``finally`` blocks of the script still run. In a loop of your own call
``run.boundary()`` after each mini-batch instead of using ``steps``.

With torch, ``agents.runtime.torch_state`` captures and restores model, optimizer, learning rate, random numbers and the
place in the data, so that a resumed training equals one that was never interrupted, to the bit.

A checkpoint is ``{"format": 1, "step": n, "state": ...}``, written by ``torch.save``, or as JSON when it holds plain
values only; a hash of its content is in its name, and a damaged one is never used.
"""

from agents.runtime.errors import BadEnvironment, RuntimeMisuse, StateMismatch, StateUnsavable
from agents.runtime.run import EXIT_STOPPED, Run

__all__ = ["EXIT_STOPPED", "BadEnvironment", "Run", "RuntimeMisuse", "StateMismatch", "StateUnsavable"]
