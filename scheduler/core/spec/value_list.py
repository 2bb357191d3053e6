"""The values of a parameter written as text: ``0.1,0.01``, ``1..5``, ``0..1:0.25``, ``adam,"a, b"``."""

import re
from decimal import Decimal, InvalidOperation

Value = float | int | str
MOST_VALUES = 1_000
_RANGE = re.compile(r"(?P<first>[^.:\s][^:\s]*?)\.\.(?P<last>[^:\s]+?)(?::(?P<step>[^:\s]+))?")
_PART = re.compile(r'((?:"[^"]*"|[^",])*"?),')
_FLOAT = re.compile(r"-?(?:(?:0|[1-9]\d{0,17})(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d{1,2})?")
_WHOLE = re.compile(r"-?(0|[1-9]\d{0,17})")


def read_values(text: str) -> tuple[Value, ...]:
    """Return the values, each once, in the order in which they are written; quotes keep a text as it is.

    Raises:
        ValueError: With the rest of a sentence about the parameter.
    """
    values: list[Value] = []
    for part in _parts(text):
        found = _RANGE.fullmatch(part)
        values += [part[1:-1]] if part.startswith('"') else _range(found) if found else [_value(part)]
        if len(values) > MOST_VALUES:
            raise ValueError(f"takes {MOST_VALUES} values at most.")
    twice = next((value for place, value in enumerate(values) if value in values[:place]), None)
    if twice is not None:
        raise ValueError(f"holds {twice} twice.")
    return tuple(values)


def _parts(text: str) -> list[str]:
    """Return what stands between the commas that are not in quotes."""
    parts = [part.strip() for part in _PART.findall(text + ",")]
    if '"' in re.sub(r'"[^"]*"', "", text):
        raise ValueError(f"has a quote that is not closed: {text[:40]}")
    if any('"' in part and not re.fullmatch(r'"[^"]*"', part) for part in parts):
        raise ValueError(f"has a value that is quoted in part: {text[:40]}")
    if not all(parts):
        raise ValueError("has an empty value: write 0.1,0.01 or 1..5 or 0..1:0.25.")
    return parts


def _range(found: re.Match[str]) -> list[Value]:
    """Return the numbers of a range, its end included where a step meets it; exact, as decimals."""
    text = found[0]
    try:
        first, last = Decimal(found["first"]), Decimal(found["last"])
        step = Decimal(found["step"]) if found["step"] else Decimal(1)
    except InvalidOperation:
        raise ValueError(f"holds {text[:40]}, which is no range of numbers such as 1..5 or 0..1:0.25.") from None
    if not all(one.is_finite() for one in (first, last, step)) or step <= 0 or last < first:
        raise ValueError(f"holds {text[:40]}: a range ends at its begin or later, by steps above 0.")
    if (last - first) / step >= MOST_VALUES:
        raise ValueError(f"takes {MOST_VALUES} values at most. {text[:40]} has more.")
    return [_number(first + step * place) for place in range(int((last - first) / step) + 1)]


def _number(value: Decimal) -> Value:
    return int(value) if value == value.to_integral_value() and abs(value) < 10**15 else float(value)


def _value(text: str) -> Value:
    """Return a number where the text is one, else the text; 007 stays a text."""
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text
