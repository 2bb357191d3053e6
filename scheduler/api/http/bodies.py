"""Bodies of writes other than jobs: explicit fields; an unknown key is an error."""

from collections.abc import Iterable, Mapping
from typing import Any, TypeVar

from rest_framework import serializers
from rest_framework.request import Request

from scheduler.services.inputs import REASON_CHARS, not_one_of


class ReasonField(serializers.CharField):
    """Why an admin or a lead changes something; the audit list keeps it, so no such change goes without."""

    def __init__(self, *, help_text: str = "Why; kept in the audit.", required: bool = True) -> None:
        least, most = REASON_CHARS
        right = f"Say in {least} to {most} characters why; it is kept in the audit list."
        super().__init__(
            min_length=least,
            max_length=most,
            required=required,
            help_text=help_text,
            error_messages={
                **dict.fromkeys(("required", "blank", "null"), f"reason is required. {right}"),
                "min_length": f"reason is too short. {right}",
                "max_length": f"reason is too long. {right}",
            },
        )


class WholeNumberField(serializers.IntegerField):
    """A whole number between two others, both included. The refusal of another one says which."""

    def __init__(self, *, min_value: int, max_value: int, **options: Any) -> None:  # as of the base class
        right = f"It must be a whole number between {min_value:,} and {max_value:,}."
        wrong: dict[str, Any] = dict.fromkeys(("invalid", "max_string_length", "min_value", "max_value"), right)
        super().__init__(min_value=min_value, max_value=max_value, error_messages=wrong, **options)


class OneOfField(serializers.ChoiceField):
    """A word of a closed list; a mapping says what each means. The refusal of another word lists them."""

    def __init__(self, words: Iterable[str], **options: Any) -> None:  # as of the base class
        self._words = words if isinstance(words, Mapping) else list(words)
        super().__init__(choices=list(self._words), **options)

    def to_internal_value(self, data: Any) -> str:  # signature of the base class
        """Return the word. Raises ValidationError."""
        if str(data) not in self._words:
            raise serializers.ValidationError(not_one_of(data, self._words), code="invalid_choice")
        word: str = super().to_internal_value(data)
        return word


# In place of the framework's own words, which say neither what is right nor always what is wrong.
_RIGHT: dict[type[serializers.Field[Any, Any, Any, Any]], dict[str, str]] = {
    serializers.IntegerField: {"invalid": "It must be a whole number."},
    serializers.FloatField: {"invalid": "It must be a number."},
    serializers.BooleanField: {"invalid": "It must be true or false."},
    serializers.DateField: dict.fromkeys(("invalid", "datetime"), "It must be a day such as 2026-01-31."),
    serializers.DateTimeField: dict.fromkeys(("invalid", "date"), "It must be a time such as 2026-01-31T12:00:00Z."),
    serializers.ListField: {"not_a_list": "It must be a list."},
}


def _say_what_is_right(field: serializers.Field[Any, Any, Any, Any]) -> None:
    """Give a field our words where it has the framework's, and what it is a list of."""
    for kind, words in _RIGHT.items():
        if isinstance(field, kind):
            own = {code for code in words if field.error_messages[code] != kind.default_error_messages[code]}
            field.error_messages |= {code: text for code, text in words.items() if code not in own}
    if isinstance(field, serializers.ListField):
        _say_what_is_right(field.child)


class Body(serializers.Serializer[Any]):  # holds plain data, no instance
    """A body with known fields; its ``help_text`` goes into the OpenAPI document."""

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        """Return the declared fields, which refuse in our words."""
        fields: dict[str, serializers.Field[Any, Any, Any, Any]] = super().get_fields()
        for field in fields.values():
            _say_what_is_right(field)
        return fields

    def to_internal_value(self, data: Any) -> dict[str, Any]:  # signature of the base class
        """Return the checked values. Raises ValidationError naming every bad and every unknown field."""
        wrong: dict[str, Any] = {}
        if isinstance(data, Mapping):
            known = ", ".join(self.fields)
            wrong = {
                str(key): serializers.ErrorDetail(f"It is no field here. The fields are {known}.", code="unknown")
                for key in data
                if key not in self.fields
            }
        try:
            values: dict[str, Any] = super().to_internal_value(data)
        except serializers.ValidationError as error:
            if not isinstance(error.detail, dict):
                raise
            wrong |= error.detail
        if wrong:
            raise serializers.ValidationError(wrong)
        return values


B = TypeVar("B", bound=Body)


def read_body(request: Request, shape: type[B]) -> dict[str, Any]:  # each field has the type of its serializer
    """Return the body of ``request`` in this shape. Raises ValidationError."""
    body = shape(data=request.data)
    body.is_valid(raise_exception=True)
    return dict(body.validated_data)
