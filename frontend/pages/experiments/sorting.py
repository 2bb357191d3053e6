"""Tables that a reader sorts by a click on a head: links, so that they work without scripts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

Row = TypeVar("Row", bound=Mapping[str, Any])  # any row: a TypedDict


@dataclass(frozen=True, slots=True, kw_only=True)
class SortHead:
    """One head.

    Attributes:
        key: The field of a row by which it sorts.
        label: Its word.
        is_number: Whether its cells stand to the right.
        link: What ``sort`` is after a click.
        order: ``ascending`` or ``descending`` where the table is sorted by it, else empty.
    """

    key: str
    label: str
    is_number: bool = False
    link: str = ""
    order: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sorted(Generic[Row]):
    """Rows in their order, and the heads over them."""

    rows: list[Row]
    heads: list[SortHead]


def sorted_rows(rows: Sequence[Row], heads: Sequence[SortHead], sort: str) -> Sorted[Row]:
    """Return rows sorted by ``key`` or ``-key``; what is unknown stands last; another word sorts nothing."""
    key, is_down = sort.removeprefix("-"), sort.startswith("-")
    told = [_head(head, key=key, is_down=is_down) for head in heads]
    if not any(head.key == key for head in heads):
        return Sorted(rows=list(rows), heads=told)
    known = sorted((row for row in rows if row.get(key) is not None), key=lambda row: _rank(row[key]), reverse=is_down)
    return Sorted(rows=[*known, *(row for row in rows if row.get(key) is None)], heads=told)


def _head(head: SortHead, *, key: str, is_down: bool) -> SortHead:
    is_own = head.key == key
    order = ("descending" if is_down else "ascending") if is_own else ""
    link = head.key if not is_own or is_down else f"-{head.key}"
    return SortHead(key=head.key, label=head.label, is_number=head.is_number, link=link, order=order)


def _rank(value: object) -> tuple[bool, float, str]:
    """Return numbers before texts, each in their own order."""
    is_number = isinstance(value, int | float)
    return not is_number, float(value) if isinstance(value, int | float) else 0.0, str(value)
