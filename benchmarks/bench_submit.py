"""Measure the time from a submit to the first instruction of the job's process on an idle cluster."""

import math
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.support.e2e.scripts import WRITES_TIME
from tests.support.e2e.stack import Client, Stack, wait_for

QUESTION = "Seconds from sending POST /api/v1/jobs to the first line of the job's own Python process (no torch)"
TARGET_P50_S = 0.5
JOBS = 40


def percentile(values: list[float], fraction: float) -> float:
    """Return the value at rank ceil(fraction * n)."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(fraction * len(ordered)) - 1)]


def one(stack: Stack, client: Client, index: int) -> tuple[float, float]:
    """Return seconds until the answer and seconds until the process runs."""
    began_s = time.time()
    job_id = client.submit(
        name=f"bench-{index}", queue="vision", command=["python", "-S", "job.py"], files={"job.py": WRITES_TIME}
    )
    answered_s = time.time() - began_s
    client.wait_state(job_id, "completed", within_s=60)
    [attempt] = client.get(f"/api/v1/jobs/{job_id}/attempts")["results"]
    started = stack.var_dir / "shared" / "attempts" / attempt["id"] / "work" / "started"
    return answered_s, float(started.read_text()) - began_s


def run() -> dict[str, Any]:
    """Submit one job after the other to an idle product."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as directory:
        # A long round: only the early round that follows a submit may start the job.
        stack = Stack(Path(directory) / "var", ROUND_S="300", LEASE_TTL_S="30", LOST_GRACE_S="15")
        try:
            stack.start()
            client = stack.client("member")
            one(stack, client, 0)  # warm
            measured = [one(stack, client, index) for index in range(1, JOBS + 1)]
            wait_for("idle", lambda: not client.get("/api/v1/jobs?state=running,launching,queued")["results"])
        finally:
            stack.destroy()
    return {
        "jobs": JOBS,
        "answer_p50_s": round(percentile([answered for answered, _ in measured], 0.5), 4),
        "start_p50_s": round(percentile([started for _, started in measured], 0.5), 4),
        "start_p99_s": round(percentile([started for _, started in measured], 0.99), 4),
        "target_start_p50_s": TARGET_P50_S,
    }
