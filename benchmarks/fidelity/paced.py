"""A job whose steps take as long as they are told: ``paced.py STEP_S STEPS``.

It waits as a job does beside a GPU that computes, so neither other jobs nor the product slow it down, and its replay
needs no number of the run.
"""

import sys
import time

from agents.runtime import Run

# Before the first step, as data and model take.
LOADING_S = 1.5

if __name__ == "__main__":
    step_s, steps = float(sys.argv[1]), int(sys.argv[2])
    run = Run(total_steps=steps)
    run.on_checkpoint(dict)
    time.sleep(LOADING_S)
    run.resume()
    due_s = time.monotonic()
    for _ in run.steps():
        due_s += step_s
        time.sleep(max(0.0, due_s - time.monotonic()))
