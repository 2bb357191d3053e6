"""Packs files of a job into a zip while it is read: nothing is copied to a disk, and only one piece is in memory.

Nothing is compressed, since what weighs most, weights and pictures, gets no smaller by it. Names in the archive are as
pages show them, so no program that unpacks it meets a name that leads out of a folder. Links are left out.
"""

import io
import os
import stat
import time
import zipfile
from collections.abc import Callable, Generator, Iterable, Iterator

from scheduler.core.model.errors import NotFound
from scheduler.models import Job
from scheduler.selectors.files.names import path_parts, path_shown
from scheduler.selectors.files.opening import JobFiles, job_files
from scheduler.selectors.files.survey import Found, walk

PIECE_BYTES = 1024 * 1024
# The list of names at the end of a zip is kept in memory until then, about 1 kB a file.
MOST_FILES = 50_000
MOST_TOLD = 1_000
# They are the 8 kB that a proxy takes as an address, at about 40 characters each.
MOST_PATHS = 200
LEFT_OUT = "LEFT-OUT.txt"


class _Sink(io.RawIOBase):
    """Takes what the archive writes, until it is handed on. It cannot seek, so sizes follow each file."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def writable(self) -> bool:
        return True

    def write(self, data: bytes) -> int:  # type: ignore[override]  # zipfile gives bytes alone
        self._parts.append(data)
        return len(data)

    def take(self) -> bytes:
        parts, self._parts = self._parts, []
        return b"".join(parts)


def zip_choice(job: Job, paths: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the files and folders that paths name, in order; all that the job wrote where there is no path.

    Each stands there once, and none that lies in a folder that is chosen as well.

    Raises:
        NotFound: One of them cannot be read; the sentence says which, and why.
    """
    chosen: list[tuple[str, ...]] = []
    with job_files(job) as files:
        for parts in sorted({path_parts(path) for path in paths} or {()}):  # a folder comes right before what is in it
            if files.is_folder(parts):
                os.close(files.folder(parts))
            else:
                files.file(parts).close()
            if not chosen or parts[: len(chosen[-1])] != chosen[-1]:
                chosen.append(parts)
    return chosen


def zip_pieces(job: Job, chosen: list[tuple[str, ...]]) -> Generator[bytes, None, None]:
    """Yield a zip of what ``zip_choice`` returned, of a job that may be running.

    Names begin at the directory of the job; where one folder is all that is chosen, in that folder. Each file is as
    long as it was when its turn came. What could not be read is named in a text at the end of the archive, also what
    goes away meanwhile.
    """
    sink, left_out = _Sink(), list[str]()

    def tell(parts: tuple[str, ...], why: str) -> None:
        if len(left_out) < MOST_TOLD:
            left_out.append(f"{path_shown(parts)}: {why}")

    with job_files(job) as files, zipfile.ZipFile(sink, "w", zipfile.ZIP_STORED) as archive:
        depth = len(chosen[0]) if len(chosen) == 1 and files.is_folder(chosen[0]) else 0
        packed = 0
        for one in _found(files, chosen, tell):
            if packed == MOST_FILES:
                tell(one.parts, f"it and all after it; a zip holds {MOST_FILES:,} files at most")
                break
            if one.kind == "file":
                packed += 1
                yield from _packed(files, one, archive, sink, depth, tell)
            elif one.kind != "folder":
                tell(one.parts, "it is a link" if one.kind == "link" else "it is no regular file")
            elif one.closed:
                tell(one.parts, "not all of the folder: it cannot be opened, lies too deep, or is too large")
        if left_out:
            name = LEFT_OUT
            while name in archive.NameToInfo:
                name = f"_{name}"
            archive.writestr(name, "Not in this archive:\n" + "\n".join(left_out) + "\n")
    yield sink.take()


def _found(
    files: JobFiles, chosen: list[tuple[str, ...]], tell: Callable[[tuple[str, ...], str], None]
) -> Iterator[Found]:
    for parts in chosen:
        try:
            yield from walk(files, parts)
        except NotFound as gone:
            tell(parts, str(gone))


def _packed(
    files: JobFiles,
    one: Found,
    archive: zipfile.ZipFile,
    sink: _Sink,
    depth: int,
    tell: Callable[[tuple[str, ...], str], None],
) -> Iterator[bytes]:
    """Yield one file as it lies in the archive."""
    try:
        file = files.file_in(one.folder_fd, one.parts)
    except NotFound as refused:
        tell(one.parts, str(refused))
        return
    with file:
        about = zipfile.ZipInfo(path_shown(one.parts[depth:]), _zip_time(one.status.st_mtime))
        about.external_attr = (stat.S_IFREG | (one.status.st_mode & 0o777)) << 16
        about.file_size = left = one.status.st_size
        with archive.open(about, "w") as entry:
            while left > 0:
                try:
                    piece = file.read(min(PIECE_BYTES, left))
                except OSError as error:  # the disk, or the server of the shared directory
                    tell(one.parts, f"only a part: {error.strerror}")
                    break
                if not piece:
                    tell(one.parts, "only a part: it became shorter while it was read")
                    break
                left -= len(piece)
                entry.write(piece)
                yield sink.take()


def _zip_time(seconds: float) -> tuple[int, int, int, int, int, int]:
    """Return a time as a zip can hold it: local, from 1980 to 2107, in steps of two seconds."""
    at = time.localtime(min(max(seconds, 0.0), 4_354_819_198.0))
    return (at.tm_year, at.tm_mon, at.tm_mday, at.tm_hour, at.tm_min, at.tm_sec) if at.tm_year >= 1980 else _FIRST


_FIRST = (1980, 1, 1, 0, 0, 0)
