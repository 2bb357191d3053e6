"""Reads jobs as columns and as the database holds them: Django would convert each value of each row by itself.

A round with 10,000 queued jobs reads 300,000 values, of which few are looked at one by one.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
from django.db import connection
from django.db.models import Func, QuerySet

from scheduler.core.model.tables import FloatArray

# Values by name of the column. Any: they have many types; moments are text where the database has no type for them.
Columns = Mapping[str, Sequence[Any]]


class Moment(Func):
    """A column of moments without a type where the database has none for them: else each would be parsed."""

    arity = 1
    template = "%(expressions)s"

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:  # Django's own hook, without types
        """Return the text that is stored."""
        return self.as_sql(compiler, connection, template="CAST(%(expressions)s AS TEXT)", **context)


def columns_read(query: QuerySet[Any, tuple[Any, ...]], names: Sequence[str]) -> Columns:
    """Return what a query by ``values_list`` finds, its columns under these names."""
    with connection.cursor() as cursor:
        cursor.execute(*query.query.sql_with_params())
        rows = cursor.fetchall()
    return {name: [row[place] for row in rows] for place, name in enumerate(names)}


def seconds_of(moments: Sequence[datetime | str | None], *, unknown: float) -> FloatArray:
    """Return moments as seconds of the wall clock, (n,); ``unknown`` where there is none."""
    found = np.full(len(moments), unknown)
    known = [place for place, moment in enumerate(moments) if moment is not None]
    told = [moments[place] for place in known]
    if told and isinstance(told[0], str):  # in UTC, to the microsecond
        found[known] = np.array(told, dtype="datetime64[us]").astype(np.int64) / 1e6
    elif told:
        found[known] = [moment.timestamp() for moment in told if isinstance(moment, datetime)]  # all are
    return found
