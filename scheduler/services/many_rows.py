"""Updates many rows with different values, by one prepared statement for each set of columns."""

from collections.abc import Iterable, Mapping
from enum import Enum
from typing import Any

from django.db import connection
from django.db.models import Model

# Any: a key, or a value of whatever type its column has.
RowChange = tuple[Any, Mapping[str, Any]]
GuardedChange = tuple[Any, Mapping[str, Any], Mapping[str, Any]]  # key, columns as they were read, new columns


def rows_update(model: type[Model], changes: Iterable[RowChange]) -> None:
    """Set columns of rows, each given by its primary key.

    Django's ``bulk_update`` builds a CASE for every column: measured at 25 s for seven columns of 10,000 jobs, this at
    about one. A call of ``update`` for each row builds as many statements.
    """
    rows_update_if(model, ((pk, {}, columns) for pk, columns in changes))


def rows_update_if(model: type[Model], changes: Iterable[GuardedChange]) -> int:
    """Do what ``rows_update`` does for the rows that still are as they were read; return how many were."""
    by_columns: dict[tuple[tuple[str, ...], tuple[str, ...]], list[tuple[Any, ...]]] = {}
    for pk, was, columns in changes:
        values = (*columns.values(), *was.values(), pk)
        by_columns.setdefault((tuple(columns), tuple(was)), []).append(values)
    quote = connection.ops.quote_name
    found = 0
    for (names, guards), rows in by_columns.items():
        # Any: the stubs do not know which kind of field a name is.
        fields: list[Any] = [*(model._meta.get_field(name) for name in (*names, *guards)), model._meta.pk]
        equal = [f"{quote(field.column)} = %s" for field in fields]
        assigned, where = ", ".join(equal[: len(names)]), " AND ".join(equal[len(names) :])
        statement = f"UPDATE {quote(model._meta.db_table)} SET {assigned} WHERE {where}"  # noqa: S608  (our names)
        with connection.cursor() as cursor:
            cursor.executemany(
                statement,
                [
                    tuple(
                        field.get_db_prep_save(_plain(value), connection)
                        for field, value in zip(fields, row, strict=True)
                    )
                    for row in rows
                ],
            )
            found += cursor.rowcount
    return found


def _plain(value: Any) -> Any:
    """Return the value of an enum member: psycopg writes the name of one."""
    return value.value if isinstance(value, Enum) else value
