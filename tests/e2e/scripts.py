"""Training scripts that the end-to-end tests submit. They are small; the workloads are tested on their own."""

# Counts steps with the runtime and writes each one down, so that a test can see none twice and none missing.
COUNTING = """
import os, sys, time
from agents.runtime import Run

total, step_s, record = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
run = Run(total_steps=total, checkpoint_every_s=1.0)
state = run.resume() or {"sum": 0}
run.on_checkpoint(lambda: state)
for step in run.steps():
    time.sleep(step_s)
    state["sum"] += step
    with open(record, "a") as file:
        file.write(f"{step} {os.getpid()}\\n")
    run.report(loss=1.0 / (1 + step))
print("sum", state["sum"])
"""

# Knows nothing of the runtime, and ends by itself.
PLAIN = """
import time
for step in range(int(2 / 0.1)):
    print("plain step", step, flush=True)
    time.sleep(0.1)
"""

IGNORES_TERM = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("not leaving", flush=True)
while True:
    time.sleep(1)
"""

HUNGRY = """
blocks = []
while True:
    blocks.append(bytearray(16 * 1024 * 1024))
    print(len(blocks) * 16, "MiB", flush=True)
"""

FLOOD = """
import os
line = b"x" * 1023 + b"\\n"
block = line * 1024
for _ in range(1024):
    os.write(1, block)
"""

DELETES_ITS_DIRECTORY = """
import os, shutil, time
shutil.rmtree(os.getcwd(), ignore_errors=True)
time.sleep(1)
print("directory is gone", os.path.exists(os.environ["HOME"]), flush=True)
"""

CRASHES = """
print("about to fail", flush=True)
raise ValueError("label 11 is out of range")
"""

WRITES_TIME = 'import time; open("started", "w").write(repr(time.time()))'
