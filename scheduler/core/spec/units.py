"""Durations and sizes as people write them, such as ``20m`` and ``64GiB``, and back.

One value has one spelling on the way back: the largest unit that divides it. Equal specs are therefore equal texts.
"""

import re

DURATION_UNITS_S = {"s": 1, "m": 60, "h": 3600}
SIZE_UNITS_BYTES = {
    "B": 1,
    "kB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "TB": 10**12,
    "KiB": 2**10,
    "MiB": 2**20,
    "GiB": 2**30,
    "TiB": 2**40,
    # As Kubernetes writes them.
    "Ki": 2**10,
    "Mi": 2**20,
    "Gi": 2**30,
    "Ti": 2**40,
}
_NUMBER_AND_UNIT = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([A-Za-z]{0,3})")


class UnitMissing(ValueError):
    """A number without the unit that would make it a duration or a size."""


def _split(text: str) -> tuple[str, str]:
    match = _NUMBER_AND_UNIT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    if not match[2]:
        raise UnitMissing(text)
    return match[1], match[2]


def _times(number: str, unit: int) -> float:
    """Multiply exactly where the number is whole: 2**53 bytes and more must not lose their last digits."""
    return int(number) * unit if number.isdigit() else float(number) * unit


def parse_duration_s(text: str) -> float:
    """Return seconds out of ``90s``, ``20m``, ``48h`` or ``1.5h``, exact to a millisecond.

    Raises:
        UnitMissing: A bare number.
        ValueError: Anything else.
    """
    number, unit = _split(text)
    if unit not in DURATION_UNITS_S:
        raise ValueError(text)
    return round(_times(number, DURATION_UNITS_S[unit]), 3)


def format_duration(seconds: float) -> str:
    """Return the one spelling of a duration: ``48h``, ``90s``, ``0.5s``."""
    for unit in ("h", "m"):
        whole = seconds / DURATION_UNITS_S[unit]
        if whole >= 1 and whole == int(whole):
            return f"{int(whole)}{unit}"
    return f"{int(seconds)}s" if seconds == int(seconds) else f"{seconds:.3f}".rstrip("0") + "s"


def counted(count: int, one: str) -> str:
    """Return a count with its noun: ``1 job``, ``7 jobs``."""
    return f"{count:,} {one}" if count == 1 else f"{count:,} {one}s"


def duration_words(seconds: float, *, space: str = " ") -> str:
    """Return a length of time in its two largest units: ``40 s``, ``17 min``, ``1 h 8 min``, ``2 d 3 h``.

    The one way in which people read a duration, on pages, in sentences and in the command (which has a copy, held to
    this one by ``tests/unit/clusterweb/test_words.py``).

    Args:
        space: Between a number and its unit.
    """
    if 0 < seconds < 0.995:
        return f"{max(1, round(seconds * 1000))}{space}ms"
    if round(seconds) < 60:
        return f"{round(seconds, 1):g}{space}s" if seconds < 10 and seconds % 1 else f"{round(seconds)}{space}s"
    units = (("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
    rounded = round(seconds) if seconds < 600 else round(seconds / 60) * 60
    parts: list[str] = []
    for index, (unit, size) in enumerate(units):
        if rounded >= size:
            parts.append(f"{rounded // size}{space}{unit}")
            rest = rounded % size
            if index + 1 < len(units) and rest >= units[index + 1][1]:
                parts.append(f"{rest // units[index + 1][1]}{space}{units[index + 1][0]}")
            break
    return " ".join(parts)


def parse_size_bytes(text: str) -> int:
    """Return bytes out of ``64GiB``, ``512MiB``, ``1.5TB`` or ``100B``; a fraction of a byte is dropped.

    Raises:
        UnitMissing: A bare number.
        ValueError: Anything else.
    """
    number, unit = _split(text)
    if unit not in SIZE_UNITS_BYTES:
        raise ValueError(text)
    return int(_times(number, SIZE_UNITS_BYTES[unit]))


def format_size(size_bytes: int) -> str:
    """Return the one spelling of a size: the largest binary unit that divides it, else bytes."""
    for unit in ("TiB", "GiB", "MiB", "KiB"):
        if size_bytes and size_bytes % SIZE_UNITS_BYTES[unit] == 0:
            return f"{size_bytes // SIZE_UNITS_BYTES[unit]}{unit}"
    return f"{size_bytes}B"
