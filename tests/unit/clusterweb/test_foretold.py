"""What ``clusterweb explain`` says of times."""

from datetime import UTC, datetime, timedelta

import pytest

from clusterweb.cli.output.foretold import wait_lines, when_lines
from clusterweb.client.rows import Estimate, Explanation


def ago(**times: int) -> str:
    """Return a moment that is so long ago, as REST writes it."""
    return (datetime.now(UTC) - timedelta(**times)).isoformat()


@pytest.mark.parametrize(
    ("changed", "position", "said"),
    [
        ({"minutes": 3}, 2, "Waits 2 h, for this reason 3 min; place 2 of 5 in line, 1 of 4 in its queue."),
        ({"hours": 2}, 2, "Waits 2 h; place 2 of 5 in line, 1 of 4 in its queue."),
        ({"minutes": 3}, None, "Waits 2 h, for this reason 3 min."),
    ],
)
def test_wait_counts_from_its_begin(changed: dict[str, int], position: int | None, said: str) -> None:
    """Not from the last change of its reason; also for a job that has no place in line."""
    found: Explanation = {  # type: ignore[typeddict-item]  # only what is read
        "waits_since": ago(hours=2),
        "since": ago(**changed),
        "position": position,
        "waiting_jobs": 5,
        "queue_position": 1 if position else None,
        "queue_waiting_jobs": 4,
    }

    assert wait_lines(found) == [said]


def test_a_job_that_does_not_wait_tells_no_wait() -> None:
    """A running job has no time of waiting."""
    found: Explanation = {"waits_since": None, "since": ago(hours=1), "position": None}  # type: ignore[typeddict-item]

    assert wait_lines(found) == []


@pytest.mark.parametrize(("hours", "begins"), [(1, "Was to start at about"), (-1, "Starts at about")])
def test_a_time_that_has_passed_is_not_told_as_one_to_come(hours: int, begins: str) -> None:
    """The next estimate is under way then."""
    estimate: Estimate = {
        "known": True,
        "p50_at": ago(hours=hours),
        "p90_at": None,
        "futures": 24,
        "sentence": "",
    }
    [line] = when_lines(estimate)

    assert line.startswith(begins)
