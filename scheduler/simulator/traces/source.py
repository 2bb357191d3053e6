"""A file or stream as trace readers see it: decompressed bytes, its head for guessing, rows that know their line."""

import csv
import gzip
import io
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, cast

from scheduler.simulator.traces.errors import TraceError, shown

_HEAD_BYTES = 65_536
_BOM = b"\xef\xbb\xbf"


class Source:
    """One trace, read once, front to back.

    Attributes:
        name: What errors call it.
    """

    def __init__(self, place: str | Path | IO[bytes] | IO[str]) -> None:
        """Open a path, or take an open file, which stays open; gzip is recognised by its first bytes.

        Raises:
            TraceError: If there is no such file, or it cannot be opened.
        """
        self._owned = isinstance(place, str | Path)
        if isinstance(place, str | Path):
            self.name = str(place)
            try:
                raw: IO[bytes] = Path(place).open("rb")  # noqa: SIM115 (closed by close())
            except OSError as error:
                raise TraceError(file=self.name, problem=f"cannot be opened: {error.strerror}") from error
        else:
            self.name = str(getattr(place, "name", "stream"))
            # A text stream is read whole, since only bytes tell what is in them.
            text = isinstance(place.read(0), str)
            raw = io.BytesIO(cast(IO[str], place).read().encode()) if text else cast(IO[bytes], place)
        buffered = self._file = io.BufferedReader(cast(io.RawIOBase, raw), _HEAD_BYTES)
        if self._peek(buffered)[:2] == b"\x1f\x8b":
            unpacked = gzip.GzipFile(fileobj=buffered)
            buffered = io.BufferedReader(cast(io.RawIOBase, unpacked), _HEAD_BYTES)
        self._raw = buffered

    def close(self) -> None:
        """Close what was opened here."""
        if self._raw is not self._file:
            # Closing an unpacked stream leaves the file below it open.
            self._raw.close()
        if self._owned:
            self._file.close()
        else:
            self._file.detach()

    def head(self) -> bytes:
        """Return the first bytes without a byte-order mark; they stay to be read."""
        return self._peek(self._raw).removeprefix(_BOM)

    def lines(self) -> Iterator[str]:
        """Yield the lines with their ends, decoded.

        Raises:
            TraceError: If a line is no text in UTF-8, or the compressed file is broken.
        """
        number = 0
        try:
            for number, line in enumerate(self._raw, start=1):
                if b"\0" in line:
                    raise TraceError(
                        file=self.name, line=number, problem="holds NUL bytes: the file is damaged, or no text"
                    )
                yield (line.removeprefix(_BOM) if number == 1 else line).decode()
        except UnicodeDecodeError as error:
            bad = error.object[error.start : error.start + 4]
            raise TraceError(
                file=self.name, line=number, problem=f"{bad!r} is not UTF-8 text; save the file as UTF-8"
            ) from error
        except (OSError, EOFError, zlib.error) as error:
            raise self._broken(error) from error

    def content(self) -> bytes:
        """Return the whole content without a byte-order mark."""
        try:
            return self._raw.read().removeprefix(_BOM)
        except (OSError, EOFError, zlib.error) as error:
            raise self._broken(error) from error

    def rows(self, delimiter: str, *, quoted: bool = True) -> Iterator[tuple[int, list[str]]]:
        """Yield (line, cells) of a delimited file, lines of blanks left out; the line is that of the row's begin.

        Raises:
            TraceError: If quotes do not match, or a cell is longer than 131,072 letters.
        """
        reader = csv.reader(
            self.lines(),
            delimiter=delimiter,
            strict=True,
            quoting=csv.QUOTE_MINIMAL if quoted else csv.QUOTE_NONE,
        )
        before = 0
        while True:
            try:
                cells = next(reader)
            except StopIteration:
                return
            except csv.Error as error:
                problem = "a carriage return ends a line alone" if "new-line" in str(error) else str(error)
                raise TraceError(file=self.name, line=before + 1, problem=f"cannot be split: {problem}") from error
            if len(cells) > 1 or (cells and cells[0].strip()):
                yield before + 1, cells
            before = reader.line_num

    def _peek(self, stream: "io.BufferedReader[io.RawIOBase]") -> bytes:
        try:
            return stream.peek(_HEAD_BYTES)
        except (OSError, EOFError, zlib.error) as error:
            raise self._broken(error) from error

    def _broken(self, error: Exception) -> TraceError:
        return TraceError(file=self.name, problem=f"cannot be read to its end: {error}")


def header_of(source: Source, cells: Sequence[str], needed: Sequence[str]) -> dict[str, int]:
    """Return the position of every column of a header line.

    Raises:
        TraceError: If a needed column is missing, or a name stands twice.
    """
    names = [cell.strip() for cell in cells]
    missing = [name for name in needed if name not in names]
    if missing:
        raise TraceError(
            file=source.name,
            line=1,
            problem=f"no column {', '.join(missing)}; the columns found are {shown(', '.join(names))}",
        )
    twice = sorted({name for name in names if name and names.count(name) > 1})
    if twice:
        raise TraceError(file=source.name, line=1, problem=f"the column {', '.join(twice)} stands there twice")
    return {name: index for index, name in enumerate(names)}
