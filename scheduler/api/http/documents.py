"""Answers in the OpenAPI document, derived from the ``TypedDict`` of each row; nothing of this runs in a request.

``document_of`` turns a row into a serializer; the fields below say what an annotation cannot.
``tests/integration/api/http/test_openapi.py`` holds real answers against the document.
"""

from collections.abc import Iterable
from datetime import datetime
from functools import cache, partial
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from scheduler.api.http.pagination import PageFields
from scheduler.selectors.rows import IsoTime, OneOf


class Shape(serializers.Serializer[Any]):
    """The shape of an answer; for documentation only."""


@extend_schema_field(OpenApiTypes.OBJECT)
class Facts(serializers.DictField):
    """Numbers and short words whose keys depend on the case; a key carries its unit."""


@extend_schema_field({"type": "array", "items": {"type": ["string", "null"], "format": "date-time"}})
class Moments(serializers.ListField):
    """Times of a series."""


@extend_schema_field({"type": "array", "items": {"type": ["number", "null"]}})
class Numbers(serializers.ListField):
    """Values of a series; null where nothing was measured."""


Shapes = frozenset[tuple[str, type[Any]]]  # documents and fields by key; fields are generic in four types


@cache
def _document(row: type, name: str, shapes: Shapes) -> type[Shape]:
    given = dict(shapes)
    hints = get_type_hints(row, include_extras=True)
    fields = {key: _field(hint, given.get(key)) for key, hint in hints.items()}
    made: Any = type(name, (Shape,), {"__doc__": row.__doc__, "__module__": row.__module__, **fields})  # of Shape
    document: type[Shape] = made
    return document


def document_of(row: type, name: str = "", **shapes: type[Any]) -> type[Shape]:  # fields of Django REST framework
    """Return the document of a row, a ``TypedDict``; what is Annotated becomes descriptions and closed lists.

    Args:
        row: Its docstring describes the document.
        name: Of the component; as the row is called where empty.
        shapes: Document or field by key, where another one than the annotation says is wanted.
    """
    return _document(row, name or row.__name__, frozenset(shapes.items()))


def page_of(row: type[Shape], name: str, about: str) -> type[PageFields]:
    """Return the document of a page of such rows."""
    made: Any = type(name, (PageFields,), {"__doc__": about, "__module__": row.__module__, "results": row(many=True)})
    page: type[PageFields] = made
    return page


def series_of(values: Iterable[str], name: str, about: str) -> type[Shape]:
    """Return the document of a series: times, and for each value a list of the same length."""
    fields = {"at": Moments(), **{value: Numbers() for value in values}}
    made: Any = type(name, (Shape,), {"__doc__": about, "__module__": __name__, **fields})
    document: type[Shape] = made
    return document


def _field(hint: Any, shape: type[Any] | None) -> Any:
    """Return the field of one annotation; raises KeyError for a type that JSON does not have."""
    about, mark, null = "", None, False
    while get_origin(hint) in (Annotated, Union, UnionType):
        if get_origin(hint) is Annotated:
            for note in hint.__metadata__:
                about, mark = (note, mark) if isinstance(note, str) else (about, note)
            hint = hint.__origin__
        else:
            hint = next(part for part in get_args(hint) if part is not NoneType)
            null = True
    inner = get_args(hint)[0] if get_origin(hint) is list else None
    options: dict[str, Any] = {"help_text": about} | ({"allow_null": True} if null else {})
    if shape is not None:
        return shape(**options, **({"many": True} if inner is not None and issubclass(shape, Shape) else {}))
    if is_typeddict(hint):
        return document_of(hint)(**options)
    if inner is not None and is_typeddict(inner):
        return document_of(inner)(many=True, **options)
    if inner is not None:
        return serializers.ListField(child=_field(inner, None), **options)
    if isinstance(mark, OneOf):
        return serializers.ChoiceField(choices=list(mark.words), allow_blank=mark.blank, **options)
    if get_origin(hint) is Literal:
        return serializers.ChoiceField(choices=list(get_args(hint)), **options)
    if get_origin(hint) is dict:
        value = get_args(hint)[1]
        return Facts(**options) if value is Any else serializers.DictField(child=_field(value, None), **options)
    if isinstance(mark, IsoTime):
        return serializers.DateTimeField(**options)
    return _SIMPLE[hint](**options)


_SIMPLE: dict[type, Any] = {  # each takes help_text and allow_null
    str: partial(serializers.CharField, allow_blank=True),
    bool: serializers.BooleanField,
    int: serializers.IntegerField,
    float: serializers.FloatField,
    datetime: serializers.DateTimeField,
}
