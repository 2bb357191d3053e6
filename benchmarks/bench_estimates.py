"""Measure the errors of start estimates over weeks of the Philly trace, replayed."""

import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.bench_submit import percentile

if TYPE_CHECKING:
    from tests.support.simulator.estimates_replay import Told

QUESTION = "Which share of waiting jobs starts by the p90 that they are told first, and how far is p50 off?"
SINCE, UNTIL = "2017-10-03", "2017-10-24"
# The first week only tells how long jobs run and how far estimates are off.
CALIBRATES_S = 7 * 86_400.0
# Of so many waits one is told, evenly: none is chosen by what it was like.
WAIT_EVERY = 10
POLICIES = ("fifo", "las")
# No job says how long it is; every second one does; all do.
TELL_EVERY = {"none": 0, "half": 2, "all": 1}
TARGET_COVERED_FRAC = 0.85
# Weeks judged one by one, each after a week that only calibrates; the demo replays none of them.
WEEKS = (("2017-10-03", "2017-10-17"), ("2017-10-10", "2017-10-24"), ("2017-10-17", "2017-10-31"))
CLASSES = (("minutes", 3_600.0), ("hours", 86_400.0), ("days", float("inf")))


def run(policy: str, tells: str, since: str = SINCE, until: str = UNTIL) -> dict[str, Any]:
    """Replay them under a policy where none, half or all of the jobs tell how much of them is left."""
    from scheduler.choices import build_config
    from tests.support.simulator.estimates_replay import (
        CLUSTER,
        QUEUES_OF_PHILLY,
        bounds_said,
        told,
        waits_of,
        workload,
    )

    begun_s = time.process_time()
    jobs = workload(since, until)
    config = build_config(policy=policy, mechanism="proportional")
    waits = waits_of(jobs, config)
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as directory:
        file = Path(directory) / "state.npz"
        every = list(told(jobs, waits[::WAIT_EVERY], config, file, tell_every=TELL_EVERY[tells]))
    said_s = bounds_said(every)
    seen = [
        (one, by_s)
        for one, by_s in zip(every, said_s.tolist(), strict=True)
        if one.at_s >= jobs[0].arrival_s + CALIBRATES_S
    ]
    covered_frac = sum(one.took_s <= by_s for one, by_s in seen) / len(seen)
    return {
        "trace": f"philly_2017-10, {since} to {until}, virtual clusters {', '.join(QUEUES_OF_PHILLY)}",
        "jobs": len(jobs),
        "gpus": CLUSTER.num_gpus,
        "policy": policy,
        "jobs_that_tell_their_length": tells,
        "waits": len(waits),
        "waits_told": len(every),
        "waits_judged": len(seen),
        "target_covered_frac": TARGET_COVERED_FRAC,
        "covered_frac": round(covered_frac, 3),
        "within_target": covered_frac >= TARGET_COVERED_FRAC,
        "covered_as_simulated_frac": round(sum(one.took_s <= one.p90_s for one, _ in seen) / len(seen), 3),
        "told_no_p90_frac": round(sum(by_s == float("inf") for _, by_s in seen) / len(seen), 3),
        "by_p50_frac": round(sum(one.took_s <= one.p50_s for one, _ in seen) / len(seen), 3),
        "median_wait_s": _median([one.took_s for one, _ in seen]),
        "median_p50_s": _median([one.p50_s for one, _ in seen]),
        "median_p90_as_simulated_s": _median([one.p90_s for one, _ in seen]),
        "median_p90_s": _median([by_s for _, by_s in seen]),
        "median_error_s": _median([abs(one.took_s - one.p50_s) for one, _ in seen]),
        "by_wait": _by_class(seen, lambda one: one.took_s),
        "by_p50": _by_class(seen, lambda one: one.p50_s),
        "cpu_s": round(time.process_time() - begun_s, 1),
    }


def _by_class(seen: "list[tuple[Told, float]]", of: "Callable[[Told], float]") -> dict[str, Any]:
    """Return coverage and errors by class of the wait: of what it came to, or of what it was told."""
    found, least_s = {}, 0.0
    for name, most_s in CLASSES:
        mine = [(one, by_s) for one, by_s in seen if least_s <= of(one) < most_s or of(one) == most_s]
        least_s = most_s
        found[name] = {
            "waits": len(mine),
            "covered_frac": round(sum(one.took_s <= by_s for one, by_s in mine) / len(mine), 3) if mine else None,
            "median_error_s": _median([abs(one.took_s - one.p50_s) for one, _ in mine]) if mine else None,
            "median_wait_s": _median([one.took_s for one, _ in mine]) if mine else None,
        }
    return found


def _median(values: list[float]) -> float | None:
    middle = percentile(sorted(values), 0.5)
    return round(middle) if middle < float("inf") else None


PARTS = {f"{policy}-{tells}": partial(run, policy, tells) for policy in POLICIES for tells in TELL_EVERY}
PARTS |= {
    f"week-{number}-{policy}": partial(run, policy, "half", *week)
    for number, week in enumerate(WEEKS, start=1)
    for policy in POLICIES
}
