"""The recipe for a kind of event: each kind that the code records has words in the feed and a place in the audit list.

Kinds are found in the code, as ``kind="..."`` of what services, live and commands record.
"""

import re

from clusterweb.config.env import BASE_DIR
from scheduler.selectors.accounts.audit import KINDS
from scheduler.selectors.accounts.notices import KINDS as NOTICE_KINDS
from scheduler.selectors.accounts.notices import notice_of
from scheduler.selectors.events import NOT_NEWS, PUBLIC_KINDS

FOLDERS = ("services", "live", "management")
TEXTS = [path.read_text() for folder in FOLDERS for path in (BASE_DIR / "scheduler" / folder).rglob("*.py")]
RECORDED = {kind for text in TEXTS for kind in re.findall(r'\bkind="(\w+)"', text)}
CONSTANTS = {"fairness_over", "fairness_again"}  # recorded by a name of ``scheduler/selectors/cluster/alerts.py``
FEED = (BASE_DIR / "frontend" / "components" / "happenings.py").read_text()
WORDS = set(re.findall(r'^    "(\w+)": ', FEED, re.MULTILINE))
# What the scheduler records by itself, and what users save for themselves alone.
NOT_AUDITED = {
    *("files_not_removed", "job_idle", "job_measured", "job_resized", "job_restored", "job_wait", "plan_refused"),
    *("report_rejected", "report_unusable", "search", "step", "trial", "view"),
}


def test_each_kind_has_words_in_the_feed() -> None:
    """A new kind has a sentence or is no news; no sentence is of a kind that is gone."""
    assert len(RECORDED) > 40
    assert set(NOT_NEWS) == RECORDED - WORDS
    assert WORDS - RECORDED == CONSTANTS


def test_each_kind_can_be_chosen_in_the_audit_list() -> None:
    """What a user does is found by its kind."""
    assert RECORDED - set(KINDS) == NOT_AUDITED
    assert set(KINDS) <= RECORDED


def test_kinds_that_are_chosen_by_name_exist() -> None:
    """In the feed of all users, and in notices: each of these is a notice."""
    assert {*NOT_NEWS, *PUBLIC_KINDS, *NOTICE_KINDS} <= RECORDED | CONSTANTS
    told = [kind for kind in NOTICE_KINDS if kind not in ("job_state", "server_state")]
    assert all(notice_of(kind=kind, old_state="", new_state="") for kind in told)
