"""Jobs that fail for real, each in one way, and what has to become of them.

Each script is run by real supervisors on a running product; the end-to-end tests check what became of the jobs, and
``benchmarks.runtime.failures`` writes it down.
"""

from dataclasses import dataclass, field
from typing import Any

from tests.support.e2e.scripts import HUNGRY

IMPORTS = "import module_that_nobody_installed\n"
SYNTAX = "def train(:\n    pass\n"
ARGUMENTS = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
parser.parse_args(["--learning-rate", "0.1"])
"""
MISSING_INPUT = 'open("labels.csv").read()\n'
BAD_LABEL = 'raise ValueError("label 11 is out of range")\n'
CRASHES_IN_C = "import ctypes\nprint('step 1', flush=True)\nctypes.string_at(0)\n"
CUDA = """
import sys
print("step 17", flush=True)
sys.exit("RuntimeError: CUDA error: an illegal memory access was encountered")
"""
CUDA_MEMORY = """
import sys
sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. token=abcdefgh")
"""
FILLS_DISK = """
import time
for number in range(200):
    time.sleep(0.05)
    with open(f"part-{number}", "wb") as file:
        file.write(bytes(1024 * 1024))
    print("wrote", number, flush=True)
"""
FULL_DEVICE = """
with open("/dev/full", "w") as file:
    file.write("all results")
"""
# Fails after a while, on one GPU as on many.
FAILS_LATER = """
import sys, time
time.sleep(5)
sys.exit("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.")
"""
# The first attempt meets a port on which nothing listens; the next one finds that out and goes on.
NO_NETWORK = """
import os, socket, sys
mark = sys.argv[1]
if not os.path.exists(mark):
    open(mark, "w").close()
    socket.create_connection(("127.0.0.1", 1), timeout=5)
print("connected")
"""
# Reports progress, then none; the next attempt goes on from the checkpoint.
HANGS = """
import time
from agents.runtime import Run
run = Run(total_steps=40, checkpoint_every_steps=5)
state = run.resume()
run.on_checkpoint(lambda: {"step": run.step})
for step in run.steps():
    run.report(loss=1.0)
    time.sleep(0.1)
    if step == 20 and state is None:
        time.sleep(3600)
"""
# Damages its newest checkpoint and fails: the next attempt must go on from the one before it.
TEARS = """
import os, sys, time
from pathlib import Path
from agents.runtime import Run
run = Run(total_steps=30, checkpoint_every_steps=5)
state = run.resume()
print("from", run.step, flush=True)
run.on_checkpoint(lambda: {"step": run.step})
for step in run.steps():
    time.sleep(0.05)
    if step == 17 and state is None:
        time.sleep(1.5)
        newest = max(Path(os.environ["CLUSTERWEB_CHECKPOINT_DIR"]).glob("step-*"))
        content = bytearray(newest.read_bytes())
        if sys.argv[1] == "torn":
            newest.write_bytes(content[: len(content) // 2])
        else:
            content[len(content) // 2] ^= 1
            newest.write_bytes(content)
        sys.exit("power cut after " + newest.name)
"""
# Reads a dataset with an item that cannot be decoded; prints what it had to decode and what it left out.
READS_ITEMS = """
import sys
from agents.runtime.dataset import CachedDataset
read = []
def decode(content):
    read.append(content)
    return int(content)
items = CachedDataset(name=sys.argv[1], keys=sys.argv[2:], read=str.encode, decode=decode)
total = sum(items[at] for at in range(len(items)))
print("decoded", sorted(set(read)), "left out", items.bad_keys, flush=True)
"""
# Its loss falls at once and then no more.
SETTLES = """
import time
from agents.runtime import Run
run = Run(total_steps=1_000_000, checkpoint_every_s=600.0)
run.on_checkpoint(lambda: {"step": run.step})
for step in run.steps():
    time.sleep(0.02)
    run.report(loss=0.5 + 1.0 / (1 + step))
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One way to fail.

    Attributes:
        name: Of the job.
        about: What is done, for people.
        spec: Beyond the script.
        causes, failures: Of the attempts, in order.
        state: In which the job ends.
        line: Part of the line that decides in the first attempt; empty when no line does.
        counted: Failures that its owner is charged for.
    """

    name: str
    about: str
    script: str
    causes: tuple[str, ...]
    failures: tuple[str, ...]
    state: str = "failed"
    line: str = ""
    counted: int = 1
    arguments: tuple[str, ...] = ()
    spec: dict[str, Any] = field(default_factory=dict)

    def job(self) -> dict[str, Any]:
        """Return its spec."""
        return {
            "name": self.name,
            "queue": "vision",
            "command": ["python", "job.py", *self.arguments],
            "files": {"job.py": self.script},
            "schedule": {"preemptible": False},  # else the cases would disturb each other
            **self.spec,
        }


def cases(mark: str) -> tuple[Case, ...]:
    """Return the cases that need nothing but a job; ``mark`` is a path that jobs may write once."""
    once, twice = ("exit_code",), ("exit_code", "exit_code")
    memory: dict[str, Any] = {"resources": {"gpus": 1, "memory": "200MiB"}}
    disk: dict[str, Any] = {"resources": {"gpus": 1, "disk": "20MiB"}}
    return (
        Case(name="fails-import", about="imports what is not there", script=IMPORTS, causes=once,
             failures=("import",), line="module_that_nobody_installed"),
        Case(name="fails-syntax", about="is no Python", script=SYNTAX, causes=once, failures=("syntax",),
             line="SyntaxError"),
        Case(name="fails-arguments", about="gets an argument it does not know", script=ARGUMENTS, causes=once,
             failures=("config",), line="unrecognized arguments: --learning-rate"),
        Case(name="fails-input", about="opens a file that is missing", script=MISSING_INPUT, causes=twice,
             failures=("incorrect_input",) * 2, line="labels.csv", counted=2),
        Case(name="fails-items", about="finds no item of its dataset readable", script=READS_ITEMS, causes=twice,
             arguments=("all-bad", "x", "y"), failures=("incorrect_input",) * 2, line="EverythingBad", counted=2),
        Case(name="fails-label", about="raises an error of its own", script=BAD_LABEL, causes=twice,
             failures=("unclassified",) * 2, line="label 11 is out of range", counted=2),
        Case(name="fails-crash", about="reads memory at address 0", script=CRASHES_IN_C, causes=("signal",) * 2,
             failures=("invalid_memory",) * 2, counted=2),
        Case(name="fails-cuda", about="ends with the words of a CUDA error", script=CUDA, causes=twice,
             failures=("invalid_memory",) * 2, line="illegal memory access", counted=2),
        Case(name="fails-cuda-memory", about="ends with the words of CUDA out of memory", script=CUDA_MEMORY,
             causes=twice, failures=("gpu_oom",) * 2, line="CUDA out of memory", counted=2),
        Case(name="fails-memory", about="takes more memory than its 200 MiB", script=HUNGRY, spec=memory,
             causes=("out_of_memory",), failures=("cpu_oom",)),
        Case(name="fails-disk", about="writes 200 MiB in files of 1 MiB, may write 20", script=FILLS_DISK, spec=disk,
             causes=("out_of_disk",), failures=("disk_full",)),
        Case(name="fails-device", about="writes to a device that is full", script=FULL_DEVICE, causes=twice,
             failures=("disk_full",) * 2, line="No space left on device", counted=2),
        Case(name="fails-hang", about="stops making progress; may for 5 s", script=HANGS,
             spec={"progress": {"stall": "5s"}}, causes=("stalled", "completed"), failures=("stalled", ""),
             state="completed"),
        Case(name="fails-torn", about="leaves half a checkpoint", script=TEARS, arguments=("torn",),
             causes=("exit_code", "completed"), failures=("unclassified", ""), state="completed"),
        Case(name="fails-flipped", about="leaves a checkpoint with one bit changed", script=TEARS,
             arguments=("flipped",), causes=("exit_code", "completed"), failures=("unclassified", ""),
             state="completed"),
        Case(name="fails-network", about="connects to a port where nobody listens", script=NO_NETWORK,
             arguments=(mark,), causes=("exit_code", "completed"), failures=("network", ""), state="completed",
             line="Connection refused", counted=0),
    )  # fmt: skip
