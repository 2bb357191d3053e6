"""Checks single input fields (a name, a reason, a number) at the boundary, with one entry per bad field."""

import re
from collections.abc import Iterable, Mapping

from scheduler.core.model.errors import FieldError, SpecInvalid
from scheduler.core.spec.reading import is_storable, number_shown, shown

REASON_CHARS = (3, 500)


def not_one_of(value: object, words: Iterable[str]) -> str:
    """Return what is wrong with a word that is not in a closed list; a mapping says what each word means."""
    means = words if isinstance(words, Mapping) else {}
    listed = [f"{word} ({means[word]})" if word in means else str(word) for word in words]
    return f"must be one of {', '.join(listed)}. You gave {shown(value)}."


def reason_given(value: str) -> str:
    """Return the reason that a user gave for a change, without blanks around it. Raises SpecInvalid."""
    problems = Problems()
    reason = problems.reason(value)
    problems.refuse()
    return reason


class Problems:
    """Collects bad fields; ``refuse`` raises when there are any."""

    def __init__(self) -> None:
        self.errors: list[FieldError] = []

    def add(self, field: str, code: str, detail: str) -> None:
        """Add one bad field."""
        self.errors.append(FieldError(pointer=f"/{field}", code=code, detail=detail))

    def refuse(self) -> None:
        """Raise SpecInvalid when a field is bad."""
        if self.errors:
            raise SpecInvalid(self.errors)

    def name(self, field: str, value: str, *, pattern: re.Pattern[str], most: int, right: str) -> str:
        """Return the name; ``right`` completes "name may hold only"."""
        if not value:
            self.add(field, "required", f"{field} is required.")
        elif len(value) > most:
            self.add(field, "length", f"{field} may have at most {most} characters. It has {len(value)}.")
        elif not pattern.fullmatch(value):
            self.add(field, "characters", f"{field} may hold only {right}, not {shown(value)!r}.")
        return value

    def text(self, field: str, value: str, *, least: int, most: int) -> str:
        """Return free text without the blanks around it."""
        text = value.strip()
        if len(text) < least:
            self.add(field, "required", f"{field} needs at least {least} characters.")
        elif len(text) > most:
            self.add(field, "length", f"{field} may have at most {most} characters. It has {len(text)}.")
        elif not is_storable(text):
            self.add(field, "characters", f"{field} holds a NUL or another character that cannot be stored.")
        return text

    def reason(self, value: str) -> str:
        """Return the reason a user gave; it is kept in the event."""
        return self.text("reason", value, least=REASON_CHARS[0], most=REASON_CHARS[1])

    def number(self, field: str, value: float, *, low: float, high: float, label: str = "") -> None:
        """Refuse a number that is not between ``low`` and ``high``, both included."""
        if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
            between = f"between {number_shown(low)} and {number_shown(high)}"
            self.add(field, "range", f"{label or field} must be {between}. You asked for {shown(value)}.")
