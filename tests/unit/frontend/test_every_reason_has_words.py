"""Every reason of waiting, cause of an end and rule of a preemption has words of its own on the pages."""

from frontend.components.happenings import CAUSES, RULES
from frontend.components.reason_names import REASON_NAMES
from scheduler.core.model.lifecycle import EndCause
from scheduler.core.model.plan import PreemptRule, WaitReason

# Ends that are no failure: the feed says them by the new state of the job.
PLANNED = {
    EndCause.COMPLETED,
    EndCause.PREEMPTED,
    EndCause.SUSPENDED,
    EndCause.CANCELLED,
    EndCause.SMOKE_PASSED,
    EndCause.EARLY_STOPPED,
}


def test_no_name_of_the_code_reaches_a_page() -> None:
    """A member without words would be shown as it is spelt in the code."""
    assert set(REASON_NAMES) == set(WaitReason)
    assert set(CAUSES) == set(EndCause) - PLANNED
    assert set(RULES) == set(PreemptRule)
