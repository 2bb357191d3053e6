"""What the page of a job calls the failure of an attempt."""

from typing import cast

from frontend.pages.jobs.charts.timeline import cause_words
from frontend.pages.jobs.job.failure_words import failure_words
from scheduler.selectors.jobs.rows import AttemptRow


def test_command_that_may_not_be_run_is_not_called_missing() -> None:
    """``train.sh`` without its bit for running is there."""
    attempt = cast(AttemptRow, {"end_cause": "command_not_found", "failure": "import", "exit_code": None})

    assert cause_words(attempt) == "Command could not be run"
    assert failure_words(attempt) == "The command cannot be run"
    assert (
        failure_words(cast(AttemptRow, {**attempt, "end_cause": "exit_code"}))
        == "A library, program or script is missing"
    )
