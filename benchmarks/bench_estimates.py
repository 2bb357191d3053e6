"""How good the estimates of starts are, over a workload that the real live system lives through on a virtual clock."""

import os
import tempfile
import time
from typing import Any

QUESTION = "Which share of jobs starts by the first p90 that they are told, and how far is p50 off?"
NUM_JOBS, LOAD, SEEDS = 300, 1.0, (1,)
TARGET_COVERED_FRAC = 0.85


def run() -> dict[str, Any]:
    """Replay each seed in a database of its own."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as directory:
        os.environ["VAR_DIR"] = directory
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "clusterweb.settings")
        import django

        django.setup()
        from django.core.management import call_command

        from tests.estimates_replay import ROUND_S, SERVERS, SHORTER, SLOTS

        call_command("migrate", verbosity=0)
        replays = []
        for seed in SEEDS:
            replays.append(_replay(seed))
            call_command("flush", interactive=False, verbosity=0)
    starts = sum(each["starts"] for each in replays)
    return {
        "gpus": SERVERS * SLOTS,
        "round_s": ROUND_S,
        "workload": f"philly-like, run times over {SHORTER:g}, two queues, half of the jobs report their length",
        "load": LOAD,
        "target_covered_frac": TARGET_COVERED_FRAC,
        "starts": starts,
        "covered_frac": round(sum(each["covered"] for each in replays) / starts, 3),
        "replays": replays,
    }


def _replay(seed: int) -> dict[str, Any]:
    from benchmarks.bench_submit import percentile
    from tests.estimates_replay import estimates_replayed

    begun_s = time.process_time()
    found = estimates_replayed(num_jobs=NUM_JOBS, load=LOAD, seed=seed)
    sizes_s = [abs(error_s) for error_s in found.errors_s]
    return {
        "seed": seed,
        "jobs": found.jobs,
        "starts": found.starts,
        "covered": found.covered,
        "covered_frac": round(found.covered / found.starts, 3),
        "by_p50_frac": round(found.below_p50 / found.starts, 3),
        "nothing_known": found.unknown,
        "median_wait_s": round(percentile(found.waits_s, 0.5)),
        "median_error_s": round(percentile(sizes_s, 0.5)),
        "p90_error_s": round(percentile(sizes_s, 0.9)),
        "cpu_s": round(time.process_time() - begun_s, 1),
    }
