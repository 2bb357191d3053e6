"""``Range`` and ``If-Range`` (RFC 9110): which part of a file a request wants."""

import re

from scheduler.api.http.errors import RangeNotSatisfiable

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})", re.ASCII)


def wanted_part(header: str, if_range: str, *, size: int, etag: str) -> tuple[int, int] | None:
    """Return the first byte and the one after the last; None for the whole file.

    Several ranges, other units and a file that is not the one of ``If-Range`` any more are answered with the whole, as
    the standard allows.

    Raises:
        RangeNotSatisfiable: The file has no such byte.
    """
    found = _RANGE.fullmatch(header.strip())
    if found is None or (if_range and if_range.strip() != etag):
        return None
    first, last = found.groups()
    if (first and last and int(last) < int(first)) or not (first or last):
        return None
    start = int(first) if first else max(0, size - int(last))
    if start >= size:
        raise RangeNotSatisfiable(size)
    return start, min(size, int(last) + 1) if first and last else size
