"""How good the estimates of starts are over three weeks of Philly, replayed."""

import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.bench_submit import percentile

QUESTION = "Which share of jobs starts by the first p90 that they are told, and how far is p50 off?"
SINCE, UNTIL = "2017-10-03", "2017-10-24"
EVERY_S = 3 * 3600.0
POLICIES = ("fifo", "las")
# No job says how long it is; every second one does; all do.
TELL_EVERY = (0, 2, 1)
TARGET_COVERED_FRAC = 0.85


def run() -> dict[str, Any]:
    """Replay them under each policy, with more and more jobs that tell how much of them is left."""
    from tests.estimates_replay import CLUSTER, QUEUES_OF_PHILLY, workload

    jobs = workload(SINCE, UNTIL)
    return {
        "trace": f"philly_2017-10, {SINCE} to {UNTIL}, virtual clusters {', '.join(QUEUES_OF_PHILLY)}",
        "jobs": len(jobs),
        "gpus": CLUSTER.num_gpus,
        "target_covered_frac": TARGET_COVERED_FRAC,
        "replays": [_replay(jobs, policy, tell_every) for policy in POLICIES for tell_every in TELL_EVERY],
    }


def _replay(jobs: list[Any], policy: str, tell_every: int) -> dict[str, Any]:
    from scheduler.choices import build_config
    from tests.estimates_replay import told_first

    begun_s = time.process_time()
    config = build_config(policy=policy, mechanism="proportional")
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as directory:
        told = told_first(jobs, config, Path(directory) / "state.npz", tell_every=tell_every, every_s=EVERY_S)
    covered_frac = sum(each.start_s <= each.p90_s for each in told) / len(told)
    return {
        "policy": policy,
        "length_told_frac": 1 / tell_every if tell_every else 0.0,
        "waits": len(told),
        "covered_frac": round(covered_frac, 3),
        "within_target": covered_frac >= TARGET_COVERED_FRAC,
        "by_p50_frac": round(sum(each.start_s <= each.p50_s for each in told) / len(told), 3),
        "median_wait_s": round(percentile(sorted(each.start_s for each in told), 0.5)),
        "median_p90_s": round(percentile(sorted(each.p90_s for each in told), 0.5)),
        "median_error_s": round(percentile(sorted(abs(each.start_s - each.p50_s) for each in told), 0.5)),
        "cpu_s": round(time.process_time() - begun_s, 1),
    }
