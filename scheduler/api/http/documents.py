"""Fields that shapes of the OpenAPI document share. Nothing of this runs in a request: selectors make the data."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from scheduler.core.model.lifecycle import JobState
from scheduler.models.queue import Role

STATES = [state.value for state in JobState]


class Shape(serializers.Serializer[Any]):
    """The shape of an answer; for documentation only."""


def text(help_text: str = "", *, null: bool = False) -> serializers.CharField:
    """Return text; an empty one is allowed."""
    return serializers.CharField(help_text=help_text, allow_null=null, allow_blank=True)


def moment(help_text: str = "", *, null: bool = True) -> serializers.DateTimeField:
    """Return a time, ISO 8601 in UTC."""
    return serializers.DateTimeField(help_text=help_text, allow_null=null)


def whole(help_text: str = "", *, null: bool = False) -> serializers.IntegerField:
    """Return a whole number."""
    return serializers.IntegerField(help_text=help_text, allow_null=null)


def real(help_text: str = "", *, null: bool = False) -> serializers.FloatField:
    """Return a number."""
    return serializers.FloatField(help_text=help_text, allow_null=null)


def yes(help_text: str = "", *, null: bool = False) -> serializers.BooleanField:
    """Return true or false."""
    return serializers.BooleanField(help_text=help_text, allow_null=null)


def word(options: list[str], help_text: str = "", *, blank: bool = False) -> serializers.ChoiceField:
    """Return one word of a closed list."""
    return serializers.ChoiceField(choices=options, help_text=help_text, allow_blank=blank)


def role(help_text: str = "") -> serializers.ChoiceField:
    """Return a role in a queue."""
    return word(list(Role.values), help_text)


@extend_schema_field(OpenApiTypes.OBJECT)
class Facts(serializers.DictField):
    """Numbers and short words whose keys depend on the case; a key carries its unit."""


@extend_schema_field({"type": "array", "items": {"type": ["string", "null"], "format": "date-time"}})
class Moments(serializers.ListField):
    """Times of a series."""


@extend_schema_field({"type": "array", "items": {"type": ["number", "null"]}})
class Numbers(serializers.ListField):
    """Values of a series; null where nothing was measured."""


class NamedJob(Shape):
    """A job as far as the reader may see it; id and number are null for a job of another queue."""

    id = text(null=True)
    number = whole(null=True)
    name = text('"another job" when you may not see it.')
    queue = text('"another queue" when you may not see it.')
