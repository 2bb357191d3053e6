"""Columns of the job list that the reader may show or hide; state, name and progress are always there.

The choice stands in the URL as the filters do, so a kept view and a link that is sent have it too.
"""

from dataclasses import dataclass

from django.http import QueryDict

# Sent beside the boxes, so that choosing none is told from choosing nothing.
ALWAYS = "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column; ``usual``: shown unless the URL says otherwise."""

    key: str
    label: str
    usual: bool = True


COLUMNS = (
    Column(key="queue", label="Queue"),
    Column(key="owner", label="Owner"),
    Column(key="gpus", label=""),  # named after the devices of the cluster
    Column(key="priority", label="Priority", usual=False),
    Column(key="submitted", label="Submitted", usual=False),
    Column(key="waited", label="Waited"),
    Column(key="ran", label="Ran"),
    Column(key="ends", label="Starts or ends"),
)
USUAL = tuple(column.key for column in COLUMNS if column.usual)


def columns_in(query: QueryDict) -> tuple[tuple[str, ...], str]:
    """Return the columns in a query string, and one sentence on what of it was not understood."""
    named = [key for text in query.getlist("columns") for key in text[:200].split(",") if key]
    if not named:
        return USUAL, ""
    known = tuple(column.key for column in COLUMNS if column.key in named)
    strange = [key for key in named if key not in known and key != ALWAYS]
    return known, f"{strange[0][:40]} is not a column of this list." if strange else ""


def columns_text(columns: tuple[str, ...]) -> str:
    """Return columns as the URL has them; empty for the usual ones."""
    return "" if columns == USUAL else ",".join((ALWAYS, *columns))


def column_boxes(columns: tuple[str, ...], *, devices: str) -> list[tuple[str, str, bool]]:
    """Return key, label and whether it is shown, for each column."""
    return [(column.key, column.label or devices, column.key in columns) for column in COLUMNS]
