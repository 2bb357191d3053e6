"""The jobs of an array: ``0-99%10`` is a hundred jobs of one spec, of which ten are at work at once."""

import re
from dataclasses import dataclass
from typing import Any

from scheduler.core.spec import limits as limit
from scheduler.core.spec.reading import FieldReader, quoted

_RANGE = re.compile(r"(?P<first>\d{1,9})(?:-(?P<last>\d{1,9})(?::(?P<step>\d{1,9}))?)?")
_TEXT = re.compile(r"(?P<ranges>[0-9,:\s-]+?)\s*(?:%\s*(?P<most>\d{1,9}))?\s*")
EXAMPLE = "0-99%10, or 1,3,5-9:2%4"


@dataclass(frozen=True, slots=True)
class JobArray:
    """The array that a spec asks for.

    Attributes:
        text: As it was written, without blanks; it is stored.
        indexes: Ascending, each once; at least one.
        most_at_work: Jobs at work at once; 0 for all.
    """

    text: str
    indexes: tuple[int, ...]
    most_at_work: int = 0

    def env(self, index: int, number: int) -> dict[str, str]:
        """Return the variables of the job with this index; ``number`` is that of the array."""
        return {
            "CLUSTERWEB_ARRAY": f"A-{number}",
            "CLUSTERWEB_ARRAY_INDEX": str(index),
            "CLUSTERWEB_ARRAY_COUNT": str(len(self.indexes)),
            "CLUSTERWEB_ARRAY_MIN": str(self.indexes[0]),
            "CLUSTERWEB_ARRAY_MAX": str(self.indexes[-1]),
        }


def read_array(reader: FieldReader, value: object) -> JobArray | None:
    """Return the array; None for a job of its own."""
    if value is None:
        return None
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str):
        reader.bad("/array", "type", f"array must be text such as {EXAMPLE}, not {quoted(value)}.")
        return None
    found = _TEXT.fullmatch(text) if len(text) <= limit.ARRAY_CHARS else None
    if found is None:
        right = f"numbers and ranges such as {EXAMPLE}, in {limit.ARRAY_CHARS} characters"
        reader.bad("/array", "syntax", f"array must be {right}, not {quoted(text)}.")
        return None
    try:
        indexes = _indexes(found["ranges"])
    except ValueError as error:
        reader.bad("/array", "range", f"array {error}")
        return None
    most = found["most"]
    if most is not None and int(most) < 1:
        reader.bad("/array", "range", "array must let 1 job or more be at work at once: the number after %.")
        return None
    return JobArray(text="".join(text.split()), indexes=indexes, most_at_work=int(most or 0))


def _indexes(text: str) -> tuple[int, ...]:
    """Return the indexes of comma-separated ranges. Raises ValueError with the rest of a sentence about the array."""
    ranges: list[range] = []
    for part in text.split(","):
        found = _RANGE.fullmatch(part.strip())
        if found is None:
            raise ValueError(f"holds {quoted(part.strip())}, which is neither a number nor a range such as 5-9:2.")
        first, step = int(found["first"]), int(found["step"] or 1)
        last = first if found["last"] is None else int(found["last"])
        if last < first or step < 1:
            raise ValueError(
                f"holds {quoted(part.strip())}: a range ends at its begin or later, by steps of 1 or more."
            )
        if last > limit.ARRAY_INDEX:
            raise ValueError(f"indexes must be between 0 and {limit.ARRAY_INDEX}. You asked for {last}.")
        ranges.append(range(first, last + 1, step))
    jobs = sum(map(len, ranges))
    if jobs > limit.ARRAY_JOBS:
        raise ValueError(f"may have at most {limit.ARRAY_JOBS} jobs. You asked for {jobs}.")
    return tuple(sorted({index for one in ranges for index in one}))


def array_schema() -> dict[str, Any]:
    """Return the part of the JSON Schema."""
    return {
        "description": (
            f"Indexes of many jobs of this spec, {limit.ARRAY_JOBS} at most, and after % how many are at work at once. "
            "Each finds its own in CLUSTERWEB_ARRAY_INDEX. Null for one job."
        ),
        "anyOf": [
            {"type": "string", "maxLength": limit.ARRAY_CHARS, "pattern": r"^[0-9,:\s-]+(%\s*[0-9]+)?\s*$"},
            {"type": "integer", "minimum": 0, "maximum": limit.ARRAY_INDEX},
            {"type": "null"},
        ],
        "examples": ["0-99%10", "1,3,5-9:2%4"],
        "default": None,
    }
