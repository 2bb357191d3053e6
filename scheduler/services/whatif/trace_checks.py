"""Checks an uploaded trace before it is stored: how much it holds, and its first rows. Runs in ``trace_child``.

What the file says of itself comes first: a Parquet file of a megabyte may hold a hundred million rows. A small trace is
read whole, of a larger one the first rows, which finds errors of the format; the rest is read in the limited process of
a run, which also names the line of an error.
"""

import gzip
import io
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, cast

from clusterweb.config.trace_limits import TraceLimits
from scheduler.core.model.errors import FieldError, SpecInvalid
from scheduler.simulator.traces import READERS, read_trace
from scheduler.simulator.traces.errors import TraceError
from scheduler.simulator.traces.readers import parquet

GZIP = b"\x1f\x8b"
HEAD_BYTES = 1024 * 1024
_FITTING_BYTES = 65_536
_CHUNK_BYTES = 256 * 1024


def trace_checked(path: Path, *, name: str, limits: TraceLimits) -> None:
    """Refuse a file of unknown format, with too many rows, that unpacks to too much, or with unreadable first rows.

    Args:
        path: Where it is.
        name: What its owner calls it.
        limits: What it may hold.

    Raises:
        SpecInvalid: With a sentence for its owner: the line and what would be right.
    """
    is_packed = _is_packed(path)
    with _opened(path, is_packed) as file:
        head = file.read(HEAD_BYTES + 1)
        num_lines = _counted(file, head, most_mib=limits.most_unpacked_mib)
        fitting = _fitting(head)
        if fitting == "parquet":
            file.seek(0)
            _refuse_footer(file, name, limits)
    is_text = not READERS[fitting].whole_only
    if is_text:
        _refuse_rows(num_lines - 1, limits)  # without the header
    if len(head) > HEAD_BYTES:
        if not is_text:
            return
        head = head[: head.rfind(b"\n", 0, HEAD_BYTES) + 1]
    content = io.BytesIO(head)
    content.name = name
    with _told():
        read_trace(content, format=fitting)


def _is_packed(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(2) == GZIP


@contextmanager
def _opened(path: Path, is_packed: bool) -> Iterator[IO[bytes]]:
    """Give the unpacked file; refuse one whose packing is broken."""
    try:
        with gzip.open(path) if is_packed else path.open("rb") as file:
            yield cast(IO[bytes], file)
    except EOFError:
        raise refused("gzip", "The gzip file ends too early. Upload it again.") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise refused("gzip", f"The gzip file is broken: {error}.") from None


def _fitting(head: bytes) -> str:
    for key, reader in READERS.items():
        if reader.fits(head[:_FITTING_BYTES]):
            return key
    raise refused("format", f"It begins like none of the formats that are read: {', '.join(READERS)}.")


def _counted(file: IO[bytes], chunk: bytes, *, most_mib: int) -> int:
    """Go through the file from behind ``chunk``, its begin, without keeping it; return the number of its lines."""
    num_bytes = num_lines = 0
    while chunk:
        num_bytes += len(chunk)
        num_lines += chunk.count(b"\n")
        if num_bytes > most_mib * 2**20:
            raise refused("length", f"It unpacks to more than {most_mib:,} MiB.")
        chunk = file.read(_CHUNK_BYTES)
    return num_lines


def _refuse_footer(file: IO[bytes], name: str, limits: TraceLimits) -> None:
    with _told():
        held = parquet.footer(file, name=name)
    _refuse_rows(held.num_rows, limits)
    if held.num_bytes > limits.most_unpacked_mib * 2**20:
        most = f"{limits.most_unpacked_mib:,} MiB"
        raise refused("length", f"Its columns unpack to {held.num_bytes / 2**20:,.0f} MiB; at most {most} are read.")


def _refuse_rows(num_rows: int, limits: TraceLimits) -> None:
    if num_rows > limits.most_rows:
        raise refused(
            "rows", f"It has {num_rows:,} rows; a trace may have at most {limits.most_rows:,}. Upload a part of it."
        )


@contextmanager
def _told() -> Iterator[None]:
    """Turn what a reader says into the error of an upload."""
    try:
        yield
    except TraceError as error:
        raise refused("row", f"{error}.".replace("..", ".")) from None


def refused(code: str, detail: str) -> SpecInvalid:
    """Return the error of an upload."""
    return SpecInvalid([FieldError(pointer="/file", code=code, detail=detail)])
