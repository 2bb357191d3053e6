"""Ids are text everywhere in the API, also where the database counts."""

from collections.abc import Mapping


def with_text_id(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row whose id is text; null stays null."""
    return {**row, "id": None if row["id"] is None else str(row["id"])}
