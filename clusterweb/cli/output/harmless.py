"""What jobs wrote, made harmless for a terminal: it cannot move the cursor, set a title or hide its own text.

Foreground colours stay; other control sequences and bidirectional marks are dropped, other control characters shown.
``frontend/pages/jobs/logs/log_text.py`` does the like for pages; the command imports nothing of the server.
"""

import re
from collections.abc import Iterable, Iterator

RESET = "\x1b[0m"
_LONGEST = 2_000  # characters of a sequence with a text; a longer one is shown as text
_CONTROL = re.compile(
    r"\x1b\[(?P<sgr>[0-9;]{0,64})m"
    r"|(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}[@-~]"  # any other control sequence: cursor, erase, modes
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]{0,2000}(?:\x07|\x1b\\|\x9c)"  # titles, links
    r"|\x1b[ -/]{0,16}[0-~]"
    r"|[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]"
    r"|(?P<lone>[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f])"
)
# The begin of a sequence whose end may come with the next piece.
_OPEN = re.compile(
    r"(?:(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,16}"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90\x98\x9c-\x9f]{0,2000}\x1b?"
    r"|\x1b[ -/]{0,16})\Z"
)
# One code of a colour sequence, with the numbers that belong to it.
_CODE = re.compile(r"[34]8;(?:5;\d+|2;\d+;\d+;\d+)|\d+")
# Kept: reset, bold, dim, italic, underline and their ends, foregrounds. Not concealed, nor the colour of a background.
_KEPT = re.compile(r"0*(?:[0-4]|2[2-4]|3[0-79]|9[0-7])|38;.+")


def harmless(pieces: Iterable[str]) -> Iterator[str]:
    """Yield pieces of one text as they are safe to print; a sequence may begin in one and end in the next.

    A text that sets a colour is followed by a reset.
    """
    held, reset = "", ""
    for piece in pieces:
        text = held + piece
        begun = _OPEN.search(text, max(0, len(text) - _LONGEST - 3))
        at = begun.start() if begun else len(text)
        held = text[at:]
        clean = _CONTROL.sub(_shown, text[:at])
        reset = RESET if "\x1b" in clean else reset
        yield clean
    yield _CONTROL.sub(_shown, held) + reset


def _shown(found: re.Match[str]) -> str:
    if lone := found["lone"]:
        return f"^{chr(ord(lone) ^ 0x40)}" if lone <= "\x7f" else "\ufffd"
    if found["sgr"] is None:
        return ""
    kept = [code for code in _CODE.findall(found["sgr"] or "0") if _KEPT.fullmatch(code)]
    return f"\x1b[{';'.join(kept)}m" if kept else ""
