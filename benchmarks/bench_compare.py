"""Measure how long ``manage.py simulate --compare`` takes with two processes and with one.

The whole command is timed by the clock, from reading the options to the table. Runs with one and two processes
alternate, because the speed of the machine drifts. A bare loop shared by two processes shows how much the second core
gives at that time: half the time of one process where both cores are free.
"""

import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TypedDict

QUESTION = "How long does it take to compare six ways to schedule with two processes instead of one?"

ARMS = tuple(f"{policy}+{mechanism}" for policy in ("fifo", "srtf", "las") for mechanism in ("proportional", "tune"))
NUM_SERVERS, GPUS, ROUND_S, LOAD = 313, 8, 60, 0.95
# With the fewer jobs starting counts for more.
SIZES, REPEATS = (20_000, 100_000), 3
MANAGE = Path(__file__).parent.parent / "manage.py"
# Wall time with two processes as a share of that with one.
TARGET_SHARE = 0.6
# Pushes and pops, as a replay does all the time, for a second or two.
BARE_LOOP = """
from heapq import heapify, heappushpop
heap = [(float(at * 7919 % 100_003), at) for at in range(100_000)]
heapify(heap)
for at in range(1_500_000):
    heappushpop(heap, (heap[0][0] + at * 7919 % 100_003, at))
"""


class Timing(TypedDict):
    """One run of the command; ``cpu_s`` is that of all its processes."""

    workers: int
    wall_s: float
    cpu_s: float
    arms_cpu_s: float


def timing(workers: int, *, num_jobs: int) -> Timing:
    """Run the command and return how long it took, and the CPU time of the replays alone."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "answer.json"
        trace = f"generate:philly?jobs={num_jobs}&load={LOAD}&gpus={NUM_SERVERS * GPUS}"
        how = f"--servers {NUM_SERVERS} --gpus {GPUS} --round-s {ROUND_S} --workers {workers} --json {answer}"
        command = [sys.executable, str(MANAGE), "simulate", trace, *how.split(), "--compare", ",".join(ARMS)]
        begin_s, begin_cpu_s = time.perf_counter(), _cpu_of_children_s()
        subprocess.run(command, check=True, capture_output=True)
        wall_s, cpu_s = time.perf_counter() - begin_s, _cpu_of_children_s() - begin_cpu_s
        arms = json.loads(answer.read_text())["arms"]
    arms_cpu_s = sum(arm["cpu_s"] for arm in arms)
    return Timing(workers=workers, wall_s=round(wall_s, 2), cpu_s=round(cpu_s, 2), arms_cpu_s=round(arms_cpu_s, 2))


def _cpu_of_children_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def bare_share() -> float:
    """Return how long two processes take for two bare loops, as a share of one after the other."""
    command = [sys.executable, "-c", BARE_LOOP]
    begin_s = time.perf_counter()
    for _ in range(2):
        subprocess.run(command, check=True)
    middle_s = time.perf_counter()
    loops = [subprocess.Popen(command) for _ in range(2)]
    for loop in loops:
        loop.wait()
    return (time.perf_counter() - middle_s) / (middle_s - begin_s)


def size(num_jobs: int) -> dict[str, object]:
    """Return the runs of one size and the median of the shares."""
    pairs = [(timing(1, num_jobs=num_jobs), timing(2, num_jobs=num_jobs)) for _ in range(REPEATS)]
    share = statistics.median(two["wall_s"] / one["wall_s"] for one, two in pairs)
    return {
        "num_jobs": num_jobs,
        "share": round(share, 3),
        "within_target": share <= TARGET_SHARE,
        "runs": [run for pair in pairs for run in pair],
    }


def run() -> dict[str, object]:
    """Return the runs of each size, whether two processes take about half the time, and how a bare loop fares."""
    bare, sizes = [bare_share()], []
    for num_jobs in SIZES:
        sizes.append(size(num_jobs))
        bare.append(bare_share())
    return {
        "arms": ARMS,
        "num_gpus": NUM_SERVERS * GPUS,
        "round_s": ROUND_S,
        "target_share": TARGET_SHARE,
        "bare_shares": [round(share, 3) for share in bare],
        "sizes": sizes,
    }


if __name__ == "__main__":
    json.dump(run(), sys.stdout, indent=2)
    print()
