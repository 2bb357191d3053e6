"""What failed in an attempt, in words for its owner."""

from scheduler.core.model.lifecycle import EndCause
from scheduler.core.operations.failures import FAILURE_WORDS
from scheduler.selectors.jobs.rows import AttemptRow


def failure_words(attempt: AttemptRow) -> str:
    """Return what failed in an attempt; empty when nothing did, or it is not known."""
    if attempt["end_cause"] == EndCause.COMMAND_NOT_FOUND:
        return "The command cannot be run"  # it may be there, and not be one that the job may run
    return FAILURE_WORDS.get(attempt["failure"], "")
