"""Checks an uploaded trace before it is stored: its unpacked size and its first rows.

A small trace is read whole, of a larger one the first rows, which finds errors of the format; the rest is read in the
limited process of a run, which also names the line of an error.
"""

import gzip
import io
import zlib
from pathlib import Path

from scheduler.core.model.errors import FieldError, SpecInvalid
from scheduler.simulator.traces import READERS, read_trace
from scheduler.simulator.traces.errors import TraceError

GZIP = b"\x1f\x8b"
HEAD_BYTES = 1024 * 1024
# A month of a million jobs has about 100 MB. Text seldom packs better than 20 to 1.
MOST_UNPACKED_BYTES = 1024 * 1024 * 1024
_CHUNK_BYTES = 256 * 1024


def unpacked_checked(path: Path) -> None:
    """Refuse a gzip file that is broken or unpacks to more than a run can hold, without keeping it in memory.

    Raises:
        SpecInvalid: With a sentence for its owner.
    """
    if not _is_packed(path):
        return
    total = 0
    try:
        with gzip.open(path) as file:
            while chunk := file.read(_CHUNK_BYTES):
                total += len(chunk)
                if total > MOST_UNPACKED_BYTES:
                    most = MOST_UNPACKED_BYTES // 2**20
                    raise refused("length", f"The gzip file unpacks to more than {most:,} MiB.")
    except EOFError:
        raise refused("gzip", "The gzip file ends too early. Upload it again.") from None
    except (OSError, zlib.error) as error:
        raise refused("gzip", f"The gzip file is broken: {error}.") from None


def _is_packed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == GZIP


def head_checked(path: Path, *, name: str) -> None:
    """Refuse a file of unknown format or with unreadable first rows.

    Raises:
        SpecInvalid: With the line and what would be right.
    """
    head, is_whole = _head(path)
    fitting = [key for key, reader in READERS.items() if reader.fits(head[:65_536])]
    if not fitting:
        formats = ", ".join(READERS)
        raise refused("format", f"It begins like none of the formats that are read: {formats}.")
    if not is_whole:
        if any(READERS[name].whole_only for name in fitting):
            return
        head = head[: head.rfind(b"\n") + 1]
    content = io.BytesIO(head)
    content.name = name
    try:
        read_trace(content, format=fitting[0])
    except TraceError as error:
        raise refused("row", f"{error}.".replace("..", ".")) from None


def _head(path: Path) -> tuple[bytes, bool]:
    """Return the first unpacked bytes, and whether that is the whole file."""
    with gzip.open(path) if _is_packed(path) else path.open("rb") as file:
        head = file.read(HEAD_BYTES + 1)
    return head[:HEAD_BYTES], len(head) <= HEAD_BYTES


def refused(code: str, detail: str) -> SpecInvalid:
    """Return the error of an upload."""
    return SpecInvalid([FieldError(pointer="/file", code=code, detail=detail)])
