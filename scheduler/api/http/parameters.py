"""Query parameters: declared once, parsed strictly, written into the OpenAPI document from the same declaration."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from django.http import QueryDict
from django.utils.dateparse import parse_datetime
from drf_spectacular.utils import OpenApiParameter

from scheduler.api.http.errors import ParametersInvalid
from scheduler.core.model.errors import FieldError
from scheduler.core.spec.reading import is_storable, nearest, number_shown, quoted
from scheduler.services.inputs import REASON_CHARS

MOST_TEXT = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class QueryParameter:
    """One query parameter.

    Attributes:
        name: As in the URL.
        description: One sentence for the documentation.
        schema: JSON Schema of the value.
        parse: Makes the value out of text; raises ValueError with what would be right.
        default: Value when the parameter is absent.
        needed: Whether it may not be absent.
        most_times: How often it may be given; above 1 its value is a tuple.
    """

    name: str
    description: str
    schema: Mapping[str, Any]  # JSON Schema
    parse: Callable[[str], object]
    default: object = None
    needed: bool = False
    most_times: int = 1

    def document(self) -> OpenApiParameter:
        """Return the parameter for the OpenAPI document."""
        schema = dict(self.schema)
        if self.most_times > 1:
            schema = {"type": "array", "items": schema, "maxItems": self.most_times}
        return OpenApiParameter(name=self.name, description=self.description, type=schema, required=self.needed)

    def value(self, given: Sequence[str]) -> object:
        """Return the value of what was given. Raises ValueError with what would be right."""
        if len(given) > self.most_times:
            raise ValueError(f"may be given {'once' if self.most_times == 1 else f'{self.most_times} times at most'}")
        return self.parse(given[0]) if self.most_times == 1 else tuple(map(self.parse, given))


def integer(
    name: str, description: str, *, least: int = 0, most: int = 2**53 - 1, default: int | None = None
) -> QueryParameter:
    """Return a whole number within bounds."""

    def parse(text: str) -> int:
        right = f"must be a whole number from {least} to {most}"
        if not text.isascii() or not text.removeprefix("-").isdigit() or len(text) > 18:
            raise ValueError(right)
        if not least <= int(text) <= most:
            raise ValueError(right)
        return int(text)

    schema: dict[str, Any] = {"type": "integer", "minimum": least, "maximum": most}  # JSON Schema
    if default is not None:
        schema["default"] = default
    return QueryParameter(name=name, description=description, schema=schema, parse=parse, default=default)


def number(name: str, description: str, *, least: float, most: float, default: float) -> QueryParameter:
    """Return a finite number within bounds."""

    def parse(text: str) -> float:
        right = f"must be a number from {number_shown(least)} to {number_shown(most)}"
        try:
            value = float(text)
        except ValueError:
            raise ValueError(right) from None
        if not math.isfinite(value) or not least <= value <= most:
            raise ValueError(right)
        return value

    schema = {"type": "number", "minimum": least, "maximum": most, "default": default}
    return QueryParameter(name=name, description=description, schema=schema, parse=parse, default=default)


def instant(name: str, description: str) -> QueryParameter:
    """Return a moment; without a zone it is taken as UTC."""

    def parse(text: str) -> datetime:
        right = "must be a time such as 2026-01-31T12:00:00Z"
        try:
            value = parse_datetime(text)
        except ValueError:
            value = None
        if value is None:
            raise ValueError(right)
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)

    return QueryParameter(
        name=name, description=description, schema={"type": "string", "format": "date-time"}, parse=parse
    )


def choice(name: str, description: str, options: Sequence[str], *, default: str | None = None) -> QueryParameter:
    """Return one word of a closed list."""

    def parse(text: str) -> str:
        if text not in options:
            raise ValueError(f"must be one of {', '.join(options)}{_not(text, options)}")
        return text

    schema: dict[str, Any] = {"type": "string", "enum": list(options)}  # JSON Schema
    if default is not None:
        schema["default"] = default
    return QueryParameter(name=name, description=description, schema=schema, parse=parse, default=default)


def _not(word: str, options: Sequence[str]) -> str:
    """Return the end of a refusal: the word that was given, and the nearest that is right."""
    near = nearest(word, options)
    return f", not {quoted(word)}" + (f". Did you mean {near!r}?" if near else "")


def choices(name: str, description: str, options: Sequence[str]) -> QueryParameter:
    """Return several words of a closed list, separated by commas."""

    def parse(text: str) -> tuple[str, ...]:
        words = tuple(dict.fromkeys(text.split(",")))
        unknown = next((word for word in words if word not in options), None)
        if unknown is not None:
            raise ValueError(f"must be a comma-separated list of {', '.join(options)}{_not(unknown, options)}")
        return words

    some = "|".join(options)
    schema = {"type": "string", "pattern": f"^({some})(,({some}))*$"}
    return QueryParameter(name=name, description=description, schema=schema, parse=parse, default=())


def text(name: str, description: str, *, most: int = MOST_TEXT) -> QueryParameter:
    """Return free text of bounded length."""

    def parse(value: str) -> str:
        if len(value) > most or "\x00" in value:
            raise ValueError(f"must be text of at most {most} characters")
        return value

    return QueryParameter(
        name=name, description=description, schema={"type": "string", "maxLength": most}, parse=parse, default=""
    )


def texts(name: str, description: str, *, most: int = MOST_TEXT, most_times: int) -> QueryParameter:
    """Return free text of bounded length that may be given several times."""
    return replace(text(name, description, most=most), most_times=most_times, default=())


def reason() -> QueryParameter:
    """Return why something is changed by a method that takes no body; it may not be left out."""
    least, most = REASON_CHARS

    def parse(value: str) -> str:
        if not least <= len(value.strip()) <= most or not is_storable(value):
            raise ValueError(f"must say in {least} to {most} characters why")
        return value.strip()

    return QueryParameter(
        name="reason",
        description=f"Why, in {least} to {most} characters; kept in the audit.",
        schema={"type": "string", "minLength": least, "maxLength": most},
        parse=parse,
        needed=True,
    )


def flag(name: str, description: str) -> QueryParameter:
    """Return true or false; absent is false."""

    def parse(value: str) -> bool:
        if value not in {"true", "false"}:
            raise ValueError("must be true or false")
        return value == "true"

    return QueryParameter(
        name=name, description=description, schema={"type": "boolean", "default": False}, parse=parse, default=False
    )


def parse_parameters(query: QueryDict, known: Sequence[QueryParameter]) -> dict[str, Any]:  # each parser knows its type
    """Return the value of every known parameter. Raises ParametersInvalid naming each that is wrong or unknown."""
    by_name = {parameter.name: parameter for parameter in known}
    values: dict[str, Any] = {parameter.name: parameter.default for parameter in known}
    wrong = [
        FieldError(pointer=f"?{one.name}", code="required", detail=f"{one.name} is required. {one.description}")
        for one in known
        if one.needed and one.name not in query
    ]
    for name, given in query.lists():
        if name not in by_name:
            may = f" Known here: {', '.join(sorted(by_name))}." if by_name else " None is known here."
            wrong.append(FieldError(pointer=f"?{name}", code="unknown", detail=f"{name} is no parameter.{may}"))
        else:
            try:
                values[name] = by_name[name].value(given)
            except ValueError as error:
                code = "repeated" if len(given) > by_name[name].most_times else "invalid"
                said = f"{name} {error}"
                ended = said if said.endswith("?") else f"{said}."
                wrong.append(FieldError(pointer=f"?{name}", code=code, detail=ended))
    if wrong:
        raise ParametersInvalid(wrong)
    return values
