"""The runtime on a real GPU: telemetry, every workload, leaving the GPU and coming back, two jobs on one GPU."""

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any

import pynvml

from benchmarks.runtime.cluster import Cluster, cluster
from benchmarks.runtime.figure import Figure
from tests.support.e2e.stack import wait_for

TITLE = "On a GPU"
WORKLOADS = ("lstm", "m5", "mobilenet", "resnet", "transformer")
STEPS = 2000
GIB = 2.0**30


def figures() -> Sequence[Figure]:
    """Measure all of it; without a GPU say so."""
    try:
        pynvml.nvmlInit()
        count = int(pynvml.nvmlDeviceGetCount())
    except pynvml.NVMLError as error:
        return (_missing(str(error)),)
    if not count:
        return (_missing("NVML finds no device"),)
    with cluster() as running:
        return (*_workloads(running), _parked(running, count), _packed(running, count))


def _missing(reason: str) -> Figure:
    return Figure(
        name="all figures of a GPU",
        target="",
        value="not measured",
        is_met=None,
        setting=f"this machine has no GPU: {reason}",
        note="`make gpu-check` on a machine with one fills this table; the code that needs one is untested until then",
    )


def _submit(running: Cluster, kind: str, *, steps: int, name: str) -> str:
    return running.admin.submit(
        name=name,
        queue="vision",
        command=["python", "-m", f"agents.workloads.{kind}", "--steps", str(steps)],
        resources={"gpus": 1, "cpus": 1, "memory": "8GiB"},
    )


def _gpus(running: Cluster) -> list[dict[str, Any]]:
    servers = running.admin.get("/api/v1/servers")["results"]
    return [gpu for server in servers for gpu in running.admin.get(f"/api/v1/servers/{server['id']}")["gpus"]]


def _most(running: Cluster, while_true: Callable[[], bool]) -> tuple[float, float]:
    """Return the largest utilization and the most memory, GiB, that any GPU reports meanwhile."""
    busy, memory_bytes = 0.0, 0.0
    while while_true():
        for gpu in _gpus(running):
            busy = max(busy, float(gpu["utilization_frac"] or 0.0))
            memory_bytes = max(memory_bytes, float(gpu["used_memory_bytes"] or 0.0))
        time.sleep(0.5)
    return busy, memory_bytes / GIB


def _workloads(running: Cluster) -> list[Figure]:
    """Every workload trains to its end on a GPU, and NVML sees it."""
    found = []
    for kind in WORKLOADS:
        key = _submit(running, kind, steps=STEPS, name=kind)
        busy, memory_gib = _most(
            running,
            lambda key=key: running.admin.job(key)["state"] not in ("completed", "failed"),  # type: ignore[misc]
        )
        state = running.admin.job(key)["state"]
        found.append(
            Figure(
                name=f"{kind}: trains on the GPU, seen by NVML",
                target="completed, utilization above 0",
                value=f"{state}; at most {busy:.0%} busy and {memory_gib:.2f} GiB in use",
                is_met=state == "completed" and busy > 0,
                setting=f"{STEPS} mini-batches; {_gpus(running)[0]['model']}",
            )
        )
    return found


def _parked(running: Cluster, count: int) -> Figure:
    """More jobs than GPUs: those that wait for their turn have left the GPU's memory."""
    running.settings(policy="fifo", introspection=[])
    alone = [_submit(running, "transformer", steps=10**6, name=f"alone-{number}") for number in range(count)]
    wait_for("steps", lambda: all(running.admin.job(key)["step"] for key in alone), within_s=180)
    time.sleep(5.0)
    before = sum(float(gpu["used_memory_bytes"] or 0) for gpu in _gpus(running))
    running.settings(introspection=["slicing"], introspection_options={"slicing": {"quantum_s": 10.0}})
    more = [_submit(running, "transformer", steps=10**6, name=f"more-{number}") for number in range(count)]
    wait_for("turns", lambda: all(running.admin.job(key)["step"] for key in more), within_s=300)
    used = []
    for _ in range(20):
        time.sleep(1.0)
        used.append(sum(float(gpu["used_memory_bytes"] or 0) for gpu in _gpus(running)))
    running.cancel(*alone, *more)
    ratio = statistics.median(used) / before
    return Figure(
        name="GPU memory in use with twice as many jobs in turns, over that of one job a GPU",
        target="less than 1.5: parked jobs keep a CUDA context, their tensors are in host memory",
        value=f"{ratio:.2f} ({before / GIB:.2f} GiB alone)",
        is_met=ratio < 1.5,
        setting=f"{count} GPUs, turns of 10 s, median of 20 samples",
    )


def _packed(running: Cluster, count: int) -> Figure:
    """Two jobs a GPU: a trial is made and judged."""
    running.settings(policy="fifo", introspection=["slicing", "packing"])
    jobs = [_submit(running, kind, steps=10**6, name=f"packed-{kind}") for kind in ("lstm", "m5") * count]
    events: list[dict[str, Any]] = []

    def judged() -> list[dict[str, Any]]:
        events[:] = [
            event
            for key in jobs
            for event in running.admin.get(f"/api/v1/jobs/{key}/events")["results"]
            if event["kind"] == "trial"
        ]
        return events

    wait_for("a verdict", judged, within_s=600)
    running.cancel(*jobs)
    return Figure(
        name="packing two jobs on one GPU: what was tried and the verdict",
        target="a verdict by measured rates",
        value="; ".join(sorted({str(event["reason"]) for event in events})),
        is_met=bool(events),
        setting=f"{len(jobs)} jobs on {count} GPUs",
    )
