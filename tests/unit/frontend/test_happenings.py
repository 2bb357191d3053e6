"""Sentences of the feed: names first, numbers of the event, nothing as it is stored."""

from typing import Any, cast

import pytest

from frontend.components.devices import CPU_SLOTS
from frontend.components.happenings import happenings
from frontend.pages.jobs.job.event_words import event_line
from scheduler.selectors.rows import EventRow

JOB = {"job_number": 7, "job_name": "train"}
QUEUE = {"queue": "vision"}


def row(kind: str, reason: str, data: dict[str, Any], **about: Any) -> EventRow:
    """Return one event by mia."""
    plain = {"job_number": None, "job_name": None, "server": None, "queue": None, "new_state": "", "old_state": ""}
    at = "2026-11-24T12:00:00.000Z"
    row = {**plain, "kind": kind, "reason": reason, "data": data, "actor": "mia", "at": at, "number": 3, **about}
    return cast(EventRow, row)


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (
            row("settings", "change", {"before": {"min_run_s": 45.0}, "after": {"min_run_s": 0.0}, "reason": "quick"}),
            "mia changed least run from 45 s to 0 s: quick",
        ),
        (
            row("job_resized", "share", {"gpus_before": 2, "gpus": 4}, **JOB),
            "train grows from 2 to 4 CPU slots: the policy shares them out anew.",
        ),
        (
            row("job_resized", "share", {"gpus_before": 4, "gpus": 1}, **JOB),
            "train shrinks from 4 to 1 CPU slot: the policy shares them out anew.",
        ),
        (
            row("job_resized", "left", {"gpus_before": 4, "gpus": 3}, **JOB),
            "train has 3 CPU slots left of 4: the process of one has ended.",
        ),
        (
            row("job_resized", "switched", {"gpus": 4, "pause_s": 2.0}, **JOB),
            "train trains on 4 CPU slots now, after a pause of 2 s.",
        ),
        (
            row("job_restored", "restore", {"attempt": 2}, **JOB),
            "train lost attempt 2 to a restored backup, which is older than its start.",
        ),
        (row("template", "create", {"template": "night"}, **QUEUE), "mia made the template night of vision."),
        (row("profile", "measure_again", {"profile": "auto-1"}), "mia asked to measure the profile auto-1 again."),
        (row("trace_file", "upload", {"name": "week.csv"}), "mia uploaded the trace week.csv."),
        (row("view", "delete", {"name": "mine"}), "mia removed the view mine of the list of jobs."),
        (row("mail_choice", "change", {"after": {"notices": []}}), "mia chose no notices as mail."),
        (
            row("mail_choice", "change", {"after": {"notices": ["job.failed", "job.idle"]}}),
            "mia chose job.failed and job.idle as mail.",
        ),
    ],
)
def test_rare_events_have_sentences(event: EventRow, words: str) -> None:
    """Whatever happens seldom reads as well as the rest."""
    told = happenings([event], CPU_SLOTS)[0]

    assert f"{told.before}{told.subject}{told.words}".replace("\u00a0", " ") == words


def test_table_of_a_job_has_the_words_of_the_feed() -> None:
    """Without the name of the job, which the page has above."""
    line = event_line(row("job_resized", "share", {"gpus_before": 2, "gpus": 4}, **JOB), CPU_SLOTS)

    assert line.words.replace("\u00a0", " ") == "Grows from 2 to 4 CPU slots: the policy shares them out anew."
