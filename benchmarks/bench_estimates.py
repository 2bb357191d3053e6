"""How good the estimates of starts are, over days of Philly that the real live system lives through.

Time is virtual, so that days take a minute; submissions, rounds, estimates and what is kept of them are the
product's own, over its own database.
"""

import os
import tempfile
import time
from typing import Any

QUESTION = "Which share of jobs starts by the first p90 that they are told, and how far is p50 off?"
WINDOW = "2017-10-16:2017-10-20"
POLICIES = ("las", "fifo")
TARGET_COVERED_FRAC = 0.85


def run() -> dict[str, Any]:
    """Live them once under each policy, in one database after the other."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as directory:
        os.environ["VAR_DIR"] = directory
        os.environ.setdefault("DJANGO_SETTINGS_MODULE", "clusterweb.settings")
        import django

        django.setup()
        from django.core.management import call_command

        from tests.lived import QUEUES, SERVERS, SLOTS

        call_command("migrate", verbosity=0)
        replays = []
        for policy in POLICIES:
            replays.append(_replay(policy))
            call_command("flush", interactive=False, verbosity=0)
    starts = sum(each["starts"] for each in replays)
    return {
        "trace": f"philly_2017-10, {WINDOW}, virtual clusters {' and '.join(QUEUES)}",
        "length_told_frac": 0.5,
        "gpus": SERVERS * SLOTS,
        "target_covered_frac": TARGET_COVERED_FRAC,
        "starts": starts,
        "covered_frac": round(sum(each["covered"] for each in replays) / starts, 3),
        "replays": replays,
    }


def _replay(policy: str) -> dict[str, Any]:
    from benchmarks.bench_submit import percentile
    from tests.estimates_replay import estimates_replayed

    begun_s = time.process_time()
    found = estimates_replayed(window=WINDOW, policy=policy)
    return {
        "policy": policy,
        "jobs": found.jobs,
        "starts": found.starts,
        "covered": found.covered,
        "covered_frac": round(found.covered / found.starts, 3),
        "by_p50_frac": round(found.below_p50 / found.starts, 3),
        "nothing_known": found.unknown,
        "median_wait_s": round(percentile(found.waits_s, 0.5)),
        "median_p90_s": round(percentile(found.promised_s, 0.5)),
        "median_error_s": round(percentile(found.errors_s, 0.5)),
        "p90_error_s": round(percentile(found.errors_s, 0.9)),
        "cpu_s": round(time.process_time() - begun_s, 1),
    }
