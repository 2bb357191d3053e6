"""Retry failed attempts in the simulator, by the rules of ``core/operations/failures.py``.

Left out: keeping off the server on which a machine failed, because failures here do not belong to servers.
"""

from dataclasses import dataclass

from scheduler.core.operations.failures import (
    FailedAttempt,
    FailureClass,
    NoRetry,
    RetryRules,
    after_failure,
)
from scheduler.simulator.jobs import SimJob


@dataclass(frozen=True, slots=True, kw_only=True)
class ByRules:
    """Retries after the pauses of the rules; a job that they stop is over, its completion stays at +inf."""

    rules: RetryRules

    def retry_after_s(self, job: SimJob, failed_attempts: int) -> float | None:
        """Return the pause after so many failed attempts, seconds; None when there is no further attempt."""
        decision = after_failure(attempts(job)[:failed_attempts][::-1], self.rules)
        return None if isinstance(decision, NoRetry) else decision.backoff_s


def attempts(job: SimJob) -> list[FailedAttempt]:
    """Return the failing attempts of a job, oldest first.

    Raises:
        ValueError: If a failure has no class of ``FailureClass``.
    """
    return [FailedAttempt(failure=FailureClass(each.cause), run_s=each.after_s) for each in job.failures]
