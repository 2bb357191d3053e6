"""Say which jobs a replay left unfinished, and why."""

import numpy as np

from scheduler.core.model.tables import BoolArray
from scheduler.simulator.study.study import Result

WORDS = {
    "queue_quota": "their queue holds its quota and may not borrow",
    "queue_max": "their queue may not hold so many GPUs",
    "user_limit": "jobs of the same user held all that one user may hold in their queue",
    "array_limit": "their array had as many jobs at work as it may",
    "dependency": "jobs that they start after had not ended",
    "no_capacity": "fewer GPUs were free than they ask for",
    "behind_policy_order": "jobs before them in the order of the policy held the GPUs",
    "fragmentation": "enough GPUs were free, but on too many servers",
    "cpu_or_memory": "the cores or the memory they insist on were not free beside the GPUs",
    "never_feasible": "no set of the servers can hold them even when empty",
    "isolation": "no server keeps jobs apart well enough for their queue, or has room for them",
    "no_server": "there is no server",
    "reconfiguring": "their GPUs were granted, and the jobs that left them still saved their work",
    "backoff": "they failed, and waited to be tried again",
    "new": "no round had looked at them yet",
}


def left_over(result: Result) -> str:
    """Return why jobs are unfinished, in one sentence or more; empty when all finished."""
    unfinished = ~np.isfinite(result.outcome.records.end_s)
    count = int(unfinished.sum())
    if not count:
        return ""
    by_count = sorted(_by_reason(result, unfinished).items(), key=lambda item: -item[1])
    listed = "; ".join(f"{number:,}: {WORDS.get(reason, reason.replace('_', ' '))}" for reason, number in by_count)
    return f"{result.arm.name}: {count:,} of {len(unfinished):,} jobs did not finish ({listed})."


def _by_reason(result: Result, unfinished: BoolArray) -> dict[str, int]:
    """Return how many of the unfinished jobs waited longest for each reason, as far as that is known."""
    records = result.outcome.records
    waited_s = records.waited_s
    counts: dict[str, int] = {}
    for row in np.flatnonzero(unfinished).tolist():
        reason = max(waited_s, key=lambda name: float(waited_s[name][row]), default="")
        if not reason or not waited_s[reason][row]:
            started = np.isfinite(records.first_start_s[row])
            reason = "ran, but not to the end" if started else "never started"
        counts[reason] = counts.get(reason, 0) + 1
    return counts
