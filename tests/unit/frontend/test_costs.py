"""Amounts as forms hold them."""

import pytest

from frontend.components.costs import amount_field


@pytest.mark.parametrize(
    ("amount", "shown"),
    [
        (None, ""),
        (0.0, "0"),
        (5000.0, "5000"),
        (12345.67, "12345.67"),
        (1234567.5, "1234567.5"),
        (1e12, "1000000000000"),
        (0.00001, "0.00001"),
    ],
)
def test_field_holds_an_amount_to_the_last_digit(amount: float | None, shown: str) -> None:
    """Without an exponent; a form that is saved as it is shown changes no amount."""
    assert amount_field(amount) == shown
    assert amount is None or float(shown) == amount
