"""Checks of single fields that the start and the variants of a scenario share."""

from collections.abc import Mapping
from typing import Any

from scheduler.services.inputs import Problems

Json = dict[str, Any]  # JSON


def refuse_unknown(problems: Problems, found: Mapping[str, Any], known: tuple[str, ...], *, at: str) -> None:
    """Add a problem for each key that is not a known field."""
    for key in found:
        if key not in known:
            there_is = f"The fields are {', '.join(known)}." if known else "There are none."
            problems.add(f"{at}{key}", "unknown", f"{key} is no field here. {there_is}")


def checked_number(
    problems: Problems, field: str, value: Any, low: float, high: float, *, whole: bool = False, label: str = ""
) -> float:  # Any: JSON until it is checked
    """Return the number, or ``low`` with a problem added where it is none or out of range."""
    found = len(problems.errors)
    problems.number(field, value, low=low, high=high, label=label or field.rpartition("/")[2])
    if len(problems.errors) == found and whole and float(value) != int(value):
        problems.add(field, "type", f"{label or field.rpartition('/')[2]} must be a whole number.")
    return float(value) if len(problems.errors) == found else low
