"""Updates many rows with different values, by one statement for each set of columns."""

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
    by_columns: dict[tuple[tuple[str, ...], tuple[str, ...]], dict[Any, tuple[Any, ...]]] = {}
    for pk, was, columns in changes:
        of_rows = by_columns.setdefault((tuple(columns), tuple(was)), {})
        of_rows[pk] = (*columns.values(), *was.values(), pk)
    update = _by_arrays if connection.vendor == "postgresql" else _one_by_one
    found = 0
    for (names, guards), of_rows in by_columns.items():
        # Any: the stubs do not know which kind of field a name is.
        fields: list[Any] = [*(model._meta.get_field(name) for name in (*names, *guards)), model._meta.pk]
        rows = [
            tuple(field.get_db_prep_save(_plain(value), connection) for field, value in zip(fields, row, strict=True))
            for row in of_rows.values()
        ]
        with connection.cursor() as cursor:
            update(cursor, model, fields, len(names), rows)
            found += cursor.rowcount
    return found


def _one_by_one(cursor: Any, model: type[Model], fields: list[Any], num_set: int, rows: list[tuple[Any, ...]]) -> None:
    """Run one statement for each row; SQLite, which is no other server, asks nothing for it."""
    quote = connection.ops.quote_name
    equal = [f"{quote(field.column)} = %s" for field in fields]
    assigned, where = ", ".join(equal[:num_set]), " AND ".join(equal[num_set:])
    cursor.executemany(f"UPDATE {quote(model._meta.db_table)} SET {assigned} WHERE {where}", rows)  # noqa: S608  (our names)


def _by_arrays(cursor: Any, model: type[Model], fields: list[Any], num_set: int, rows: list[tuple[Any, ...]]) -> None:
    """Run one statement for all rows, with an array for each column: PostgreSQL parses and plans each statement.

    Callers hold the rows locked: in which order they are written is the server's choice.
    """
    quote = connection.ops.quote_name
    names = [f"v{number}" for number in range(len(fields))]
    equal = [f"{quote(field.column)} = new.{name}" for field, name in zip(fields, names, strict=True)]
    arrays = ", ".join(f"(%s)::{field.db_type(connection)}[]" for field in fields)
    table = quote(model._meta.db_table)
    cursor.execute(
        f"UPDATE {table} SET {', '.join(equal[:num_set])} FROM UNNEST({arrays}) AS new({', '.join(names)})"  # noqa: S608  (our names)
        f" WHERE {' AND '.join(f'{table}.{one}' for one in equal[num_set:])}",
        [list(column) for column in zip(*rows, strict=True)],
    )


def _plain(value: Any) -> Any:
    """Return the value of an enum member: psycopg writes the name of one."""
    return value.value if isinstance(value, Enum) else value
