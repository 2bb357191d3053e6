"""Read fields of untrusted data one by one; each bad field becomes one error entry, and reading goes on.

A bad field yields its default, so that one pass finds everything that is wrong.
"""

import difflib
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TypeVar

from scheduler.core.model.errors import FieldError
from scheduler.core.spec.limits import ERRORS
from scheduler.core.spec.units import UnitMissing, format_duration, format_size, parse_duration_s, parse_size_bytes

N = TypeVar("N", int, float)
SHOWN_CHARS = 40  # of a bad value in a sentence


def shown(value: object) -> str:
    """Return a value as a sentence may quote it: short, on one line, never the inside of a list or mapping."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true" if value else "false"
        case float():
            return number_shown(value)
        case str() | int():
            text = str(value)
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _:
            text = f"a {type(value).__name__}"
    text = "".join(
        letter if letter.isprintable() else "\N{REPLACEMENT CHARACTER}" for letter in text[: SHOWN_CHARS + 1]
    )
    return text if len(text) <= SHOWN_CHARS else text[:SHOWN_CHARS] + "…"


def quoted(value: object) -> str:
    """Return text in quotes and anything else as it is."""
    return f"'{shown(value)}'" if isinstance(value, str) else shown(value)


def number_shown(value: float) -> str:
    """Return a number without a needless fraction; a large one with commas."""
    if not abs(value) <= 1e18 or value != round(value):  # not a number at all is neither
        return f"{value:g}"
    return f"{value:,.0f}" if abs(value) >= 1e6 else f"{value:.0f}"


def pointer_step(key: object) -> str:
    """Return one step of a JSON pointer (RFC 6901)."""
    return "/" + str(key)[:120].replace("~", "~0").replace("/", "~1")


def is_storable(text: str) -> bool:
    """Return whether every database and file system takes the text: no NUL, no half of a surrogate pair."""
    return "\x00" not in text and not any("\ud800" <= letter <= "\udfff" for letter in text)


@dataclass(slots=True)
class FieldReader:
    """Collects what is wrong while the fields of one input are read."""

    errors: list[FieldError] = field(default_factory=list)

    def bad(self, pointer: str, code: str, detail: str) -> None:
        """Add one entry, unless there are too many already."""
        if len(self.errors) < ERRORS:
            self.errors.append(FieldError(pointer=pointer, code=code, detail=detail))

    def mapping(
        self,
        value: object,
        pointer: str,
        *,
        label: str,
        keys: Iterable[str] | None,
        elsewhere: Mapping[str, str] = MappingProxyType({}),
    ) -> Mapping[str, object]:
        """Return a mapping with text keys; ``keys`` are the valid ones, None takes any.

        ``elsewhere`` says of keys that stand in a part of it which part that is.
        """
        if value is None:
            return {}
        if not isinstance(value, Mapping):
            self.bad(pointer, "type", f"{label} must be a mapping of keys to values, not {quoted(value)}.")
            return {}
        known = None if keys is None else list(keys)
        kept: dict[str, object] = {}
        for key, item in value.items():
            if isinstance(key, str) and (known is None or key in known):
                kept[key] = item
            else:
                self.bad(pointer + pointer_step(key), "unknown", _unknown(key, known, label, elsewhere))
        return kept

    def text(
        self,
        value: object,
        pointer: str,
        *,
        label: str,
        longest_bytes: int,
        pattern: re.Pattern[str] | None = None,
        right: str = "",
    ) -> str:
        """Return text of at most ``longest_bytes``; ``right`` says what the pattern wants."""
        if not isinstance(value, str):
            hint = f': write "{shown(value)}" in quotes' if isinstance(value, int | float) else ""
            self.bad(pointer, "type", f"{label} must be text{hint}.")
        elif not is_storable(value):
            self.bad(pointer, "characters", f"{label} holds a NUL or another character that cannot be stored.")
        elif len(value.encode()) > longest_bytes:
            unit = "characters" if value.isascii() else "bytes"
            got = len(value.encode())
            self.bad(pointer, "length", f"{label} may have at most {longest_bytes} {unit}. It has {got}.")
        elif pattern is not None and not pattern.fullmatch(value):
            self.bad(pointer, "characters", f"{label} must {right}, not {quoted(value)}.")
        else:
            return value
        return ""

    def number(
        self, value: object, pointer: str, *, label: str, limits: tuple[float, float], default: float, whole: bool
    ) -> float:
        """Return a number within ``limits``, both included."""
        low, high = limits
        between = f"between {number_shown(low)} and {number_shown(high)}"
        if not isinstance(value, int | float) or isinstance(value, bool):
            kind = "a whole number" if whole else "a number"
            self.bad(pointer, "type", f"{label} must be {kind} {between}, not {quoted(value)}.")
        elif not low <= value <= high:  # not a number fails here too
            self.bad(pointer, "range", f"{label} must be {between}. You asked for {shown(value)}.")
        elif whole and value != int(value):
            self.bad(pointer, "type", f"{label} must be a whole number. You asked for {shown(value)}.")
        else:
            return int(value) if whole else float(value)
        return default

    def flag(self, value: object, pointer: str, *, label: str, default: bool) -> bool:
        """Return true or false."""
        if isinstance(value, bool):
            return value
        self.bad(pointer, "type", f"{label} must be true or false, not {quoted(value)}.")
        return default

    def whole(self, value: object, pointer: str, label: str, limits: tuple[int, int], *, default: int) -> int:
        """Return a whole number; None is the default."""
        if value is None:
            return default
        return int(self.number(value, pointer, label=label, limits=limits, default=default, whole=True))

    def duration(
        self, value: object, pointer: str, label: str, limits: tuple[float, float], *, default: float
    ) -> float:
        """Return seconds out of text such as ``20m``; None is the default, which is also the example."""
        return self._quantity(value, pointer, label, limits, default, "s", parse_duration_s, format_duration)

    def size(self, value: object, pointer: str, label: str, limits: tuple[int, int], *, default: int) -> int:
        """Return bytes out of text such as ``64GiB``; None is the default, which is also the example."""
        return self._quantity(value, pointer, label, limits, default, "GiB", parse_size_bytes, format_size)

    def _quantity(
        self,
        value: object,
        pointer: str,
        label: str,
        limits: tuple[N, N],
        default: N,
        unit: str,
        parse: Callable[[str], N],
        written: Callable[[N], str],
    ) -> N:
        """Return what ``parse`` makes of text with a unit, within ``limits``; ``written`` is the way back."""
        if value is None:
            return default
        text = shown(value) if isinstance(value, int | float) and not isinstance(value, bool) else value
        if not isinstance(text, str):
            self.bad(pointer, "type", f"{label} must be text such as {written(default)}, not {quoted(value)}.")
            return default
        try:
            got = parse(text)
        except UnitMissing:
            self.bad(pointer, "unit", f"{label} needs a unit: {shown(text)}{unit}.")
        except ValueError:
            example = written(default)
            self.bad(pointer, "unit", f"{label} must be a number with a unit, such as {example}, not {quoted(text)}.")
        else:
            if limits[0] <= got <= limits[1]:
                return got
            between = f"between {written(limits[0])} and {written(limits[1])}"
            self.bad(pointer, "range", f"{label} must be {between}. You asked for {shown(value)}.")
        return default

    def count(self, pointer: str, label: str, data: Mapping[str, object], most: int) -> None:
        """Refuse a mapping with more than ``most`` entries."""
        if len(data) > most:
            self.bad(pointer, "length", f"{label} may have at most {most} entries. There are {len(data)}.")

    def total(self, pointer: str, label: str, texts: Iterable[str], most_bytes: int) -> None:
        """Refuse texts that take more than ``most_bytes`` together."""
        taken = sum(len(text.encode()) for text in texts)
        if taken > most_bytes:
            most = format_size(most_bytes)
            self.bad(pointer, "length", f"{label} may take at most {most} in all. It takes {taken} bytes.")


def nearest(word: str, known: Sequence[str]) -> str:
    """Return the known word that was probably meant; empty for none."""
    return next(iter(difflib.get_close_matches(word[:120], known, n=1, cutoff=0.6)), "")


def _unknown(key: object, known: list[str] | None, label: str, elsewhere: Mapping[str, str]) -> str:
    """Return the sentence about an unknown key."""
    if known is None:
        return f"{quoted(key)} cannot be a key: keys are text."
    near = nearest(str(key), [*known, *elsewhere])
    found = f"{elsewhere[near]}.{near}" if near in elsewhere else near
    ending = f"Did you mean {found!r}?" if near else f"The keys here are {', '.join(known)}."
    return f"{quoted(key)} is not a key of {label}. {ending}"
