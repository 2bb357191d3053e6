"""The recipe for a cause of an end: places that no other test misses when a member of ``EndCause`` is added."""

from frontend.pages.jobs.charts.timeline import CAUSES
from scheduler.core.model.lifecycle import ENDS_BY_RULE, INFRASTRUCTURE, EndCause
from scheduler.live.attempts.retry import FAILS_AT_ONCE, STOPPED

# After these a job is tried again as often as its spec allows.
TRIED_AGAIN = {EndCause.EXIT_CODE, EndCause.SIGNAL, EndCause.STALLED}
COMPLETES = {EndCause.COMPLETED, EndCause.EARLY_STOPPED}
NEVER_RAN = {EndCause.DEPENDENCY}  # of a job, not of an attempt


def test_each_cause_has_words_in_the_course_of_a_job() -> None:
    """A bar without words would say that nothing happened."""
    assert set(CAUSES) == set(EndCause)


def test_each_cause_says_whether_the_job_is_tried_again() -> None:
    """A cause in none of the sets of ``retry.py`` is tried again, which is to be a decision."""
    decided = STOPPED | FAILS_AT_ONCE | INFRASTRUCTURE | COMPLETES | NEVER_RAN

    assert set(EndCause) - decided == TRIED_AGAIN
    assert not FAILS_AT_ONCE & (STOPPED | INFRASTRUCTURE)
    assert ENDS_BY_RULE <= STOPPED | COMPLETES
