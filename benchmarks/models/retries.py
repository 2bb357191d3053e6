"""What the failing attempts of one job cost under rules for retries, Philly's own among them.

Source: Jeon et al., "Analysis of Large-Scale Multi-Tenant GPU Clusters for DNN Training Workloads" (Philly), ATC 2019,
sections 4 and 5.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scheduler.core.operations.failures import FailedAttempt, NoRetry, RetryRules, after_failure, fails_smoke_run

# What Philly did: try again, whatever it was.
PHILLY = RetryRules(stops_on_same=False, backoff_first_s=0.0, avoid_server_s=0.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryOutcome:
    """What the failing attempts of one job cost.

    Attributes:
        attempts: Attempts that failed, a failed smoke run included.
        lost_gpu_s: GPU-seconds that gave nothing.
        smoke_gpu_s: GPU-seconds of a smoke run that passed.
        pauses_s: Sum of the pauses between attempts.
        stopped: Why it was not tried again; None when it got past its failures.
    """

    attempts: int
    lost_gpu_s: float
    smoke_gpu_s: float
    pauses_s: float
    stopped: NoRetry | None


def retry_outcome(failures: Sequence[FailedAttempt], *, num_gpus: int, rules: RetryRules) -> RetryOutcome:
    """Return the cost of failed attempts, one after the other, until one succeeds or the rules stop the job.

    Args:
        failures: Its failing attempts, oldest first. An error that never goes away is a plan with more attempts than
            are ever made.
        num_gpus: GPUs of its gang. A job of one GPU has no smoke run: it would be its first attempt.
        rules: When it is tried again.
    """
    smoked = num_gpus > 1 and rules.smoke_run_s > 0
    if smoked and failures and fails_smoke_run(failures[0].failure, rules):
        lost_s = min(failures[0].run_s, rules.smoke_run_s)
        return RetryOutcome(
            attempts=1, lost_gpu_s=lost_s, smoke_gpu_s=0.0, pauses_s=0.0, stopped=NoRetry.SMOKE_RUN_FAILED
        )
    seen: list[FailedAttempt] = []
    pauses_s, stopped = 0.0, None
    for failure in failures:
        seen.insert(0, failure)
        decision = after_failure(seen, rules)
        if isinstance(decision, NoRetry):
            stopped = decision
            break
        pauses_s += decision.backoff_s
    return RetryOutcome(
        attempts=len(seen),
        lost_gpu_s=num_gpus * math.fsum(attempt.run_s for attempt in seen),
        smoke_gpu_s=rules.smoke_run_s if smoked else 0.0,
        pauses_s=pauses_s,
        stopped=stopped,
    )
