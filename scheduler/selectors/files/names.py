"""Names of files as text: any bytes that a job chose, readable, on one line, and told apart.

A character that cannot be shown or that could deceive (control characters, marks of writing direction, a backslash,
bytes that are no UTF-8) is written as ``%`` and two hexadecimal digits for each of its bytes, and so is a ``%`` that
would look like one of these. All else stays. Paths in URLs, in REST answers, on pages and in archives are written so.
"""

import os
import re
import unicodedata

from scheduler.core.model.errors import NotFound

MOST_DEPTH = 64
MOST_PATH = 32_768
_CODED = re.compile(rb"%([0-9A-F]{2})")
_LETTERS = re.compile("(%(?=[0-9A-F]{2}))|.", re.DOTALL)


def name_shown(name: str) -> str:
    """Return the text for a name as ``os`` gives it."""
    if name.isascii() and name.isprintable() and "\\" not in name and "%" not in name:
        return name
    return _LETTERS.sub(_shown, name)


def _shown(found: re.Match[str]) -> str:
    letter = found[0]
    if found[1]:
        return "%25"
    if letter != "\\" and unicodedata.category(letter)[0] != "C" and letter not in "\u2028\u2029":
        return letter
    return "".join(f"%{byte:02X}" for byte in os.fsencode(letter))


def path_shown(parts: tuple[str, ...]) -> str:
    """Return the text for a path."""
    return "/".join(map(name_shown, parts))


def path_parts(path: str) -> tuple[str, ...]:
    """Return the names, as ``os`` takes them, of a path as we show it; none for the directory itself.

    Raises:
        NotFound: No file can have such a path.
    """
    text = path.strip("/")
    if not text:
        return ()
    parts = tuple(map(_name, text.split("/"))) if len(text) <= MOST_PATH else ("",)
    if len(parts) > MOST_DEPTH or any(part in ("", ".", "..") or "/" in part or "\0" in part for part in parts):
        raise NotFound(f"There is no file {text[:80]!r}.")
    return parts


def _name(text: str) -> str:
    coded = text.encode("utf-8", "surrogatepass")
    return os.fsdecode(_CODED.sub(lambda found: bytes([int(found[1], 16)]), coded))
