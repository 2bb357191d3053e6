"""Form fields that say in our words what is wrong: the field, why, and what would be right."""

from datetime import date
from typing import Any

from django import forms

from scheduler.core.spec.reading import number_shown, shown
from scheduler.services.inputs import REASON_CHARS

DAY_EXAMPLE = "2026-12-31"


class CountField(forms.IntegerField):
    """A whole number of at least ``min_value``; ``empty`` says what an empty field means where one is allowed."""

    def __init__(self, *, min_value: int, max_value: int | None = None, empty: str = "", **kwargs: Any) -> None:
        self.empty, self.low, self.high = empty, min_value, max_value
        super().__init__(min_value=min_value, max_value=max_value, required=not empty, **kwargs)

    def clean(self, value: Any) -> int | None:  # as sent
        """Return the number, or None for an empty field."""
        text = str(value or "").strip()
        low, high = self.low, self.high
        right = f"Give a whole number, {low} or more" if high is None else f"Give a whole number from {low} to {high}"
        if not text:
            if self.empty:
                return None
            raise forms.ValidationError(f"It is empty. {right}.")
        try:
            found = int(self.to_python(text) or 0)
        except forms.ValidationError:
            wrong = "is no whole number"
        else:
            if found >= low and (high is None or found <= high):
                return found
            wrong = f"is less than {low}" if found < low else f"is more than {high}"
        instead = f", or leave it empty for {self.empty}" if self.empty else ""
        raise forms.ValidationError(f"{shown(text)} {wrong}. {right}{instead}.")


class FactorField(forms.FloatField):
    """A number between two bounds."""

    def __init__(self, *, min_value: float, max_value: float, **kwargs: Any) -> None:
        super().__init__(min_value=min_value, max_value=max_value, **kwargs)
        self.low, self.high = min_value, max_value

    def clean(self, value: Any) -> float:  # as sent
        """Return the number."""
        text = str(value or "").strip()
        try:
            found = self.to_python(text)
        except forms.ValidationError:
            found = None
        if found is None or not self.low <= found <= self.high:
            bounds = f"from {number_shown(self.low)} to {number_shown(self.high)}"
            wrong = "It is empty" if not text else f"{shown(text)} is not {'a number' if found is None else bounds}"
            raise forms.ValidationError(f"{wrong}. Give a number {bounds}.")
        return float(found)


class DayField(forms.DateField):
    """A day, or none; ``empty`` says what an empty field means."""

    def __init__(self, *, empty: str, **kwargs: Any) -> None:
        self.empty = empty
        super().__init__(required=False, **kwargs)

    def clean(self, value: Any) -> date | None:  # as sent
        """Return the day."""
        try:
            found: date | None = super().clean(value)
        except forms.ValidationError:
            given = shown(str(value).strip())
            raise forms.ValidationError(
                f"{given} is no day. Give one such as {DAY_EXAMPLE}, or leave it empty to ask {self.empty}."
            ) from None
        return found


class ReasonField(forms.CharField):
    """Why, in the user's words."""

    def __init__(self, **kwargs: Any) -> None:
        low, high = REASON_CHARS
        super().__init__(
            min_length=low,
            max_length=high,
            error_messages={
                "required": f"It is empty. Say why in at least {low} characters.",
                "min_length": f"It is too short. Say why in at least {low} characters.",
                "max_length": f"It has %(show_value)d characters. Shorten it to {high}.",
            },
            **kwargs,
        )
