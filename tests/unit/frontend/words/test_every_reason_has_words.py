"""Every reason of waiting, cause of an end and rule of a preemption has words of its own on the pages."""

import re
from typing import cast

from clusterweb.config.env import BASE_DIR
from frontend.components.devices import CPU_SLOTS
from frontend.components.happenings import CAUSES, RULES
from frontend.components.reason_names import REASON_NAMES
from frontend.pages.jobs.job.event_words import event_line
from frontend.pages.rounds.words import TRIGGERS
from scheduler.core.model.lifecycle import ENDS_BY_RULE, RANK_ENDED, EndCause
from scheduler.core.model.plan import PreemptRule, WaitReason
from scheduler.selectors.rows import EventRow

AT = "2026-11-24T12:00:00.000Z"

LIVE = "\n".join(path.read_text() for path in sorted((BASE_DIR / "scheduler" / "live").rglob("*.py")))
# Causes for which a rule of the scheduler asks an attempt to stop.
ASKED = {EndCause[name] for name in re.findall(r"attempt_ask\([^()]*rule=EndCause\.(\w+)", LIVE)}
STOPS = {*PreemptRule, *ASKED, RANK_ENDED}

# Ends that are no failure: the feed says them by the new state of the job.
PLANNED = {
    EndCause.COMPLETED,
    EndCause.PREEMPTED,
    EndCause.SUSPENDED,
    EndCause.CANCELLED,
    EndCause.SMOKE_PASSED,
    EndCause.EARLY_STOPPED,
}


def test_a_start_is_no_alarm() -> None:
    """Until the first server has reported, each job waits for one; alerts tell of servers that are lost."""
    row = {"kind": "job_wait", "reason": WaitReason.NO_SERVER, "data": {}, "number": 1, "actor": "", "at": AT}

    assert event_line(cast(EventRow, row), CPU_SLOTS).tone == "info"


def test_no_name_of_the_code_reaches_a_page() -> None:
    """A member without words would be shown as it is spelt in the code."""
    assert set(REASON_NAMES) == set(WaitReason)
    assert set(CAUSES) == set(EndCause) - PLANNED
    assert set(RULES) == STOPS


def test_the_reasons_of_stops_are_known() -> None:
    """What the engine gives as the rule of a stop is found above, wherever it is written."""
    moved = re.findall(r"to=JobState\.PREEMPTING,.*?reason=([\w.]+)", LIVE, re.DOTALL)
    receipts = re.findall(r'receipt=\{"preempt_rule": ([\w.]+)', LIVE)

    assert {*moved, *receipts} == {"preemption.rule", "rule", "RANK_ENDED"}
    assert set(ENDS_BY_RULE) < ASKED


def test_every_trigger_of_a_round_has_words() -> None:
    """Each that the scheduler names in its code; none reaches a page as it is stored."""
    texts = [path.read_text() for path in (BASE_DIR / "scheduler").rglob("*.py")]
    named = {name for text in texts for name in re.findall(r'request_round\("(\w+)"\)', text)}

    assert len(named) > 10
    assert named <= TRIGGERS.keys()
