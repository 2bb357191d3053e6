"""What the simulator does with failed attempts, by the rules of ``core/operations/failures.py``.

Left out: keeping off the server on which a machine failed, because failures here do not belong to servers.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from scheduler.core.operations.failures import (
    FailedAttempt,
    FailureClass,
    RetryRules,
    Stop,
    after_failure,
    fails_smoke_run,
)
from scheduler.simulator.jobs import SimJob


@dataclass(frozen=True, slots=True, kw_only=True)
class ByRules:
    """Retries after the pauses of the rules; a job that they stop is over, its completion stays at +inf."""

    rules: RetryRules

    def retry_after_s(self, job: SimJob, failed_attempts: int) -> float | None:
        """Return the pause after so many failed attempts, seconds; None when there is no further attempt."""
        decision = after_failure(attempts(job)[:failed_attempts][::-1], self.rules)
        return None if isinstance(decision, Stop) else decision.backoff_s


def attempts(job: SimJob) -> list[FailedAttempt]:
    """Return the failing attempts of a job, oldest first.

    Raises:
        ValueError: If a failure has no class of ``FailureClass``.
    """
    return [FailedAttempt(failure=FailureClass(each.cause), run_s=each.after_s) for each in job.failures]


def with_smoke_runs(jobs: Sequence[SimJob], rules: RetryRules) -> list[SimJob]:
    """Return the workload in which jobs of several GPUs run their first iterations on one GPU before.

    A job that fails there is that smoke run and nothing else; one that passes is followed by itself. Differs from the
    real order: the job of several GPUs does not wait for its smoke run, which would delay it by that run at most.
    """
    found = []
    for job in jobs:
        if job.num_gpus == 1 or rules.smoke_run_s <= 0:
            found.append(job)
            continue
        smoke = replace(
            job, num_gpus=1, min_gpus=None, max_gpus=None, run_s=rules.smoke_run_s, name=f"{job.name} smoke"
        )
        if job.failures and fails_smoke_run(attempts(job)[0].failure, rules):
            found.append(replace(smoke, run_s=min(rules.smoke_run_s, job.failures[0].after_s), failures=()))
        else:
            found += [replace(smoke, failures=()), job]
    return found
