"""Says which jobs a replay left unfinished, and why: numbers a person can act on."""

import numpy as np

from scheduler.simulator.study import Prepared, Result
from scheduler.simulator.traces.trace import wider_than

_WORDS = {
    "queue_quota": "their queue holds its quota and may not borrow",
    "queue_max": "their queue may not hold so many GPUs",
    "no_capacity": "fewer GPUs were free than they ask for",
    "behind_policy_order": "jobs before them in the order of the policy held the GPUs",
    "fragmentation": "enough GPUs were free, but on too many servers",
    "cpu_or_memory": "the cores or the memory they insist on were not free beside the GPUs",
    "never_feasible": "no set of the servers can hold them even when empty",
    "no_server": "there is no server",
    "backoff": "they failed too often",
}


def left_over(result: Result, prepared: Prepared) -> str:
    """Return why jobs are unfinished, in one sentence or more; empty when all finished."""
    unfinished = ~np.isfinite(result.outcome.records.end_s)
    count = int(unfinished.sum())
    if not count:
        return ""
    cluster_gpus = int(prepared.servers.num_gpus.sum())
    wide = [job for job in wider_than(prepared.trace.jobs, cluster_gpus=cluster_gpus) if unfinished[job.job]]
    reasons: dict[str, int] = {}
    if wide:
        most = max(job.num_gpus for job in wide)
        reasons[f"they need up to {most:,} GPUs at once, the cluster has {cluster_gpus:,}"] = len(wide)
    for reason, rows in _by_reason(result, unfinished, {job.job for job in wide}).items():
        text = _WORDS.get(reason, reason.replace("_", " "))
        reasons[text] = reasons.get(text, 0) + rows
    listed = "; ".join(f"{number:,}: {text}" for text, number in sorted(reasons.items(), key=lambda item: -item[1]))
    return f"{result.arm.name}: {count:,} of {len(unfinished):,} jobs did not finish ({listed})."


def _by_reason(result: Result, unfinished: np.ndarray, known: set[int]) -> dict[str, int]:
    """Return how many of the other unfinished jobs waited longest for each reason."""
    waited_s = result.outcome.records.waited_s
    names = list(waited_s)
    counts: dict[str, int] = {}
    for row in np.flatnonzero(unfinished).tolist():
        if row in known:
            continue
        times = [float(waited_s[name][row]) for name in names]
        reason = names[int(np.argmax(times))] if any(time > 0 for time in times) else "still running or never looked at"
        counts[reason] = counts.get(reason, 0) + 1
    return counts
