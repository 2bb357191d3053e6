"""How a number stands in a sentence about a bad value."""

import math

import pytest

from scheduler.core.spec.reading import number_shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1, "1"),
        (4096.0, "4096"),
        (0.1, "0.1"),
        (10**15, "1,000,000,000,000,000"),
        (2**31 - 1, "2,147,483,647"),
        (math.inf, "inf"),
        (math.nan, "nan"),
    ],
)
def test_numbers_are_written_in_digits(value: float, text: str) -> None:
    """As people write them, not with an exponent; what is no finite number keeps its name."""
    assert number_shown(value) == text
