"""Ids are text everywhere in the API, also where the database counts."""

from typing import Any

Row = dict[str, Any]  # JSON


def with_text_id(row: Row) -> Row:
    """Return a row whose id is text; null stays null."""
    return {**row, "id": None if row["id"] is None else str(row["id"])}
