"""Records to JSON, and readers of single values out of JSON that others wrote. Each raises Malformed with the key.

They decide what a number or a text may be at the edge: finite, in range, without NUL, encodable. ``KeyError``,
``TypeError`` and ``AttributeError`` of a wrong shape are left to the caller, which reads a whole record at once.
"""

import math
import re
from dataclasses import fields, is_dataclass
from typing import Any

from agents.protocol.errors import Malformed

SERVER_ID = re.compile(r"s[a-z0-9]{11}")
ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}")

# What a number of a job may be. More steps than these no training has, and a float no longer tells two apart.
MOST_STEPS = 10**12
LEAST_STEPS_PER_S, MOST_STEPS_PER_S = 1e-9, 1e9
MOST_LOSS = 1e12
MOST_BYTES = 2.0**50
MOST_PAUSE_S = 1e7
# Of the secrets of one attempt: characters of sealed text.
MOST_SEALED = 512 * 1024

JsonMap = dict[str, Any]  # JSON at the edge; parsed into a dataclass at once


def is_clean(text: str) -> bool:
    """Return whether the text can be stored and handed to a process: no NUL, no lone surrogates."""
    if "\x00" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain(value: Any) -> Any:  # a dataclass of ours, or what is in one
    """Return JSON data of a dataclass, unlike ``asdict`` without a copy of every leaf."""
    if is_dataclass(value):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


def read_int(data: JsonMap, key: str, *, low: int = 0, high: int = 2**62) -> int:
    """Return a whole number within ``low`` to ``high``."""
    value = data[key]
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise Malformed(key)
    return value


def read_float(data: JsonMap, key: str, *, low: float = 0.0, high: float = 1e18) -> float:
    """Return a finite number within ``low`` to ``high``."""
    value = data[key]
    # The range comes first: a whole number of a thousand digits cannot be made a float.
    if not isinstance(value, int | float) or isinstance(value, bool) or not low <= value <= high:
        raise Malformed(key)
    if not math.isfinite(value):
        raise Malformed(key)
    return float(value)


def read_opt_int(data: JsonMap, key: str, *, low: int = 0, high: int = 2**62) -> int | None:
    """Return a whole number, or None when it is missing."""
    return None if data.get(key) is None else read_int(data, key, low=low, high=high)


def read_opt_float(data: JsonMap, key: str, *, low: float = 0.0, high: float = 1e18) -> float | None:
    """Return a finite number, or None when it is missing."""
    return None if data.get(key) is None else read_float(data, key, low=low, high=high)


def read_str(data: JsonMap, key: str, *, most: int = 300, pattern: re.Pattern[str] | None = None) -> str:
    """Return a clean text of at most ``most`` characters that fits ``pattern`` as a whole."""
    value = data[key]
    if not isinstance(value, str) or len(value) > most or not is_clean(value):
        raise Malformed(key)
    if pattern is not None and not pattern.fullmatch(value):
        raise Malformed(key)
    return value


def read_bool(data: JsonMap, key: str) -> bool:
    """Return a truth value."""
    value = data[key]
    if not isinstance(value, bool):
        raise Malformed(key)
    return value


def read_list(data: JsonMap, key: str, *, most: int) -> list[Any]:
    """Return a list of at most ``most`` unread items."""
    value = data[key]
    if not isinstance(value, list) or len(value) > most:
        raise Malformed(key)
    return value


def read_ints(data: JsonMap, key: str, *, most: int = 4096, high: int = 2**31) -> tuple[int, ...]:
    """Return whole numbers of 0 to ``high``."""
    values = read_list(data, key, most=most)
    if not all(isinstance(v, int) and not isinstance(v, bool) and 0 <= v <= high for v in values):
        raise Malformed(key)
    return tuple(values)


def read_strings(data: JsonMap, key: str, *, most: int = 4096, longest: int = 1_000_000) -> tuple[str, ...]:
    """Return clean texts."""
    values = read_list(data, key, most=most)
    if not all(isinstance(v, str) and len(v) <= longest and is_clean(v) for v in values):
        raise Malformed(key)
    return tuple(values)


def read_map(data: JsonMap, key: str, *, most: int = 1024) -> dict[str, str]:
    """Return a map of clean texts."""
    value = data[key]
    if not isinstance(value, dict) or len(value) > most:
        raise Malformed(key)
    if not all(isinstance(v, str) and is_clean(v) and is_clean(k) for k, v in value.items()):
        raise Malformed(key)
    return dict(value)
