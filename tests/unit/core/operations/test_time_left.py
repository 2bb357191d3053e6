"""What is left of a training: a number, or unknown, whatever steps and rate a job reports."""

import math
from datetime import UTC, datetime, timedelta

import pytest

from scheduler.core.operations.time_left import moment_after, time_left_s

AT = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("step", "total_steps", "steps_per_s", "left_s"),
    [
        (40, 100, 2.0, 30.0),
        (None, 100, 2.0, 50.0),
        (100, 100, 2.0, 0.0),
        (120, 100, 2.0, 0.0),
        (1, None, 2.0, math.inf),
        (1, 100, None, math.inf),
        (1, 100, 0.0, math.inf),
        (1, 100, 1e-9, math.inf),
        (1, 2**53, 1.0, math.inf),
        (1, 2**53, 5e-324, math.inf),
    ],
)
def test_time_left(step: int | None, total_steps: int | None, steps_per_s: float | None, left_s: float) -> None:
    """Ten years and more are unknown."""
    found = time_left_s(step=step, total_steps=total_steps, steps_per_s=steps_per_s)

    assert found == left_s
    assert moment_after(AT, found) == (None if math.isinf(left_s) else AT + timedelta(seconds=left_s))
