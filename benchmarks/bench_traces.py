"""Measure time and memory to read a trace of a million rows, and time to generate jobs.

Each format is read by a process of its own, so that its peak of memory is its own.
"""

import json
import random
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

from scheduler.simulator.workloads import philly_like

QUESTION = "How long does it take to read a million rows, and to generate 100,000 jobs?"

ROWS = 1_000_000
TARGET_CPU_S, TARGET_PEAK_MB = 10.0, 500.0
GENERATED, TARGET_GENERATED_S = 100_000, 2.0

_READ = """
import json, resource, sys, time
from scheduler.simulator.traces import read_trace
began = time.process_time()
trace = read_trace(sys.argv[1])
cpu_s = time.process_time() - began
peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([trace.format, len(trace.jobs), round(cpu_s, 2), round(peak_mb)]))
"""
_PACK = """
import sys
from benchmarks.support.trace_files import write_parquet
from scheduler.simulator.traces import read_trace
with open(sys.argv[2], "wb") as file:
    write_parquet(read_trace(sys.argv[1]), file)
"""


def write_csv(path: Path, rows: int) -> None:
    """Write our own format with names, users and queues."""
    draws = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        file.write("arrival_s,num_gpus,run_s,name,owner,queue\n")
        for row in range(rows):
            gpus, run_s = draws.choice((1, 1, 1, 2, 4, 8)), draws.lognormvariate(8, 1.5)
            owner = f"user-{draws.randrange(300)},queue-{draws.randrange(14)}"
            file.write(f"{row * 7.5:.3f},{gpus},{run_s:.3f},job-{row},{owner}\n")


def write_helios(path: Path, rows: int) -> None:
    """Write a log with dates."""
    draws = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        file.write("job_id,user,vc,gpu_num,cpu_num,node_num,state,submit_time,start_time,end_time,duration,queue\n")
        for row in range(rows):
            submit = datetime.fromtimestamp(1_585_700_000 + 7 * row, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")
            gpus, run_s = draws.choice((1, 1, 1, 2, 4, 8)), int(draws.lognormvariate(8, 1.5))
            owner = f"user-{draws.randrange(300)},vc-{draws.randrange(14)}"
            file.write(f"{row},{owner},{gpus},4,1,COMPLETED,{submit},{submit},{submit},{run_s},0\n")


def run(rows: int = ROWS) -> dict[str, object]:
    """Return seconds and megabytes by format."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in ("trace.csv", "cluster_log.csv", "trace.parquet")]
        write_csv(paths[0], rows)
        write_helios(paths[1], rows)
        _in_a_process(_PACK, paths[0], paths[2])
        readings = [_reading(path) for path in paths]
    began = time.process_time()
    philly_like(num_jobs=GENERATED, cluster_gpus=2504, num_queues=14, failures=True)
    generated_s = time.process_time() - began
    return {
        "benchmark": "traces",
        "rows": rows,
        "readings": readings,
        "target_cpu_s": TARGET_CPU_S,
        "target_peak_mb": TARGET_PEAK_MB,
        "generated_jobs": GENERATED,
        "generated_cpu_s": round(generated_s, 2),
        "target_generated_cpu_s": TARGET_GENERATED_S,
    }


def _reading(path: Path) -> dict[str, object]:
    values = json.loads(_in_a_process(_READ, path))
    return dict(zip(("format", "jobs", "cpu_s", "peak_mb"), values, strict=True))


def _in_a_process(script: str, *paths: Path) -> bytes:
    """Return what a script prints; this process stays small, since Linux starts the peak of a child at its parent's."""
    command = [sys.executable, "-c", script, *map(str, paths)]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout


if __name__ == "__main__":
    json.dump(run(), sys.stdout, indent=2)
    print()
