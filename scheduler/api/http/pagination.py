"""Pages of a list that do not shift while rows are added: a page begins after a row, not at an offset.

The order is total: one column, then the primary order of the table. A cursor names the row it continues from.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, TypeVar

from django.core import signing
from django.db.models import Model, Q, QuerySet
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.utils.urls import replace_query_param

from scheduler.api.http import parameters
from scheduler.api.http.errors import ParametersInvalid
from scheduler.core.model.errors import FieldError

Row = TypeVar("Row", bound=Model)
SALT = "clusterweb.cursor"

LIMIT = parameters.integer("limit", "Rows of a page.", least=1, most=500, default=50)
CURSOR = parameters.text("cursor", "Where the page begins: taken from `next` or `previous`, not made by hand.")
COUNT = parameters.flag("count", "Also count all rows that match, as `total`. Costs a second query.")
PAGE = (LIMIT, CURSOR, COUNT)


class PageFields(serializers.Serializer[Any]):  # documentation only
    """What each page of a list carries beside its rows."""

    next = serializers.URLField(allow_null=True, help_text="The following page; null on the last.")
    previous = serializers.URLField(allow_null=True, help_text="The page before; null on the first.")
    total = serializers.IntegerField(required=False, help_text="All rows that match; only with `count=true`.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """A total order of rows.

    Attributes:
        name: As the caller wrote it, such as ``-submitted_at``.
        column: Model field that sorts first.
        tie: Unique field that sorts rows with equal values; may be the same as ``column``.
    """

    name: str
    column: str
    tie: str

    @property
    def descending(self) -> bool:
        """Return whether large values come first."""
        return self.name.startswith("-")


NEWEST_FIRST = Order(name="-id", column="id", tie="id")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Position:
    """A place between two rows: after or before the row with these values."""

    value: Any  # of the column: str, int, float or datetime
    tie: Any  # of the tie column
    forward: bool


def _wrong_cursor() -> ParametersInvalid:
    detail = "cursor must be one that this list gave, with the same ordering."
    return ParametersInvalid([FieldError(pointer="?cursor", code="invalid", detail=detail)])


def _pack(order: Order, row: Model, *, forward: bool) -> str:
    value = getattr(row, order.column)
    kept = value.isoformat() if isinstance(value, datetime) else value
    return signing.dumps([order.name, kept, getattr(row, order.tie), forward], salt=SALT)


def _unpack(order: Order, cursor: str, model: type[Model]) -> _Position:
    try:
        # Signed, so that what is inside can be trusted to be values of these columns.
        name, value, tie, forward = signing.loads(cursor, salt=SALT)
    except (signing.BadSignature, ValueError):
        raise _wrong_cursor() from None
    if name != order.name:
        raise _wrong_cursor()
    column: Any = model._meta.get_field(order.column)  # a column of the table, never a relation
    return _Position(value=column.to_python(value), tie=tie, forward=forward)


def _beyond(order: Order, position: _Position, *, forward: bool) -> Q:
    side = "lt" if order.descending == forward else "gt"
    if order.column == order.tie:
        return Q(**{f"{order.tie}__{side}": position.tie})
    # The first condition follows from the second; it is what lets a database begin at the place in its index.
    return Q(**{f"{order.column}__{side}e": position.value}) & (
        Q(**{f"{order.column}__{side}": position.value}) | Q(**{f"{order.tie}__{side}": position.tie})
    )


class Page(Generic[Row]):
    """One page of a list: its rows and the cursors of the pages beside it."""

    def __init__(self, *, rows: QuerySet[Row], order: Order, params: Mapping[str, Any]) -> None:  # parsed parameters
        self.order = order
        self.total = rows.count() if params["count"] else None
        cursor, limit = params["cursor"], params["limit"]
        position = _unpack(order, cursor, rows.model) if cursor else None
        forward = position is None or position.forward
        found = list(self._sorted(rows, position, forward=forward)[: limit + 1])
        more, found = len(found) > limit, found[:limit]
        self.rows = found if forward else found[::-1]
        self.has_next = more if forward else self._exists(rows, forward=True)
        self.has_previous = (position is not None and self._exists(rows, forward=False)) if forward else more

    def _sorted(self, rows: QuerySet[Row], position: _Position | None, *, forward: bool) -> QuerySet[Row]:
        if position is not None:
            rows = rows.filter(_beyond(self.order, position, forward=forward))
        sign = "-" if self.order.descending == forward else ""
        return rows.order_by(f"{sign}{self.order.column}", f"{sign}{self.order.tie}")

    def _exists(self, rows: QuerySet[Row], *, forward: bool) -> bool:
        if not self.rows:
            return False
        edge = self.rows[-1 if forward else 0]
        position = _Position(value=getattr(edge, self.order.column), tie=getattr(edge, self.order.tie), forward=forward)
        return rows.filter(_beyond(self.order, position, forward=forward)).exists()

    def body(self, request: Request, render: Callable[[Row], Mapping[str, object]]) -> dict[str, object]:
        """Return the page as the API answers it."""
        here = request.build_absolute_uri()
        body: dict[str, object] = {"results": [render(row) for row in self.rows], "next": None, "previous": None}
        if self.has_next:
            body["next"] = replace_query_param(here, "cursor", _pack(self.order, self.rows[-1], forward=True))
        if self.has_previous:
            body["previous"] = replace_query_param(here, "cursor", _pack(self.order, self.rows[0], forward=False))
        if self.total is not None:
            body["total"] = self.total
        return body


def whole_list(rows: Sequence[Mapping[str, object]]) -> dict[str, object]:
    """Return a list that is always given whole, in the shape of a page."""
    return {"results": rows, "next": None, "previous": None}
