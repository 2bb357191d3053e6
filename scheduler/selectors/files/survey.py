"""Walks the tree of a job's files, below descriptors and within limits; what is beyond them is said, not looked at."""

import math
import os
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from itertools import islice

from scheduler.core.model.errors import NotFound
from scheduler.models import Job
from scheduler.selectors.files.listing import NAMES_LISTED, kind_of, names_in, status_of
from scheduler.selectors.files.names import MOST_DEPTH, path_shown
from scheduler.selectors.files.opening import FOLDER_FLAGS, JobFiles, job_files


@dataclass(frozen=True, slots=True)
class Found:
    """One name on the way. ``folder_fd`` is of the folder around it, open until the next one is asked for."""

    parts: tuple[str, ...]
    status: os.stat_result
    kind: str
    folder_fd: int
    closed: bool = False  # a folder of which not all follows: not to be opened, too deep, or too large


@dataclass(slots=True)
class _Level:
    fd: int
    parts: tuple[str, ...]
    names: list[str]  # those that are left, the next one last


def walk(files: JobFiles, below: tuple[str, ...] = ()) -> Generator[Found, None, None]:
    """Yield all that lies below a folder, a folder before what is in it, names in order; of a file the file itself.

    Raises NotFound. Links are yielded, not followed. One descriptor is open for each level, at most MOST_DEPTH.
    """
    if not files.is_folder(below):
        yield from _one(files, below)
        return
    levels = [_level(files.folder(below), below, NAMES_LISTED)]
    try:
        while levels:
            level = levels[-1]
            if not level.names:
                os.close(levels.pop().fd)
                continue
            name = level.names.pop()
            status = status_of(level.fd, name)
            if status is None:
                continue
            parts, kind, inner = (*level.parts, name), kind_of(status), None
            if kind == "folder":
                inner = _inner(level.fd, parts, NAMES_LISTED - sum(len(one.names) for one in levels))
            if inner is not None:
                levels.append(inner)
            yield Found(parts, status, kind, level.fd, closed=kind == "folder" and inner is None)
    finally:
        for level in levels:
            os.close(level.fd)


def _one(files: JobFiles, parts: tuple[str, ...]) -> Iterator[Found]:
    """Yield what is no folder."""
    above = files.folder(parts[:-1])
    try:
        status = status_of(above, parts[-1])
        if status is None:
            raise NotFound(f"There is no file {path_shown(parts)!r}.")
        yield Found(parts, status, kind_of(status), above, closed=kind_of(status) == "folder")
    finally:
        os.close(above)


def _inner(folder_fd: int, parts: tuple[str, ...], room: int) -> _Level | None:
    """Return a folder in a folder; None where it cannot be opened, lies too deep or has too many names."""
    if len(parts) >= MOST_DEPTH:
        return None
    try:
        opened = os.open(parts[-1], FOLDER_FLAGS, dir_fd=folder_fd)
    except OSError:
        return None
    level = _level(opened, parts, room)
    if len(level.names) > room:
        os.close(opened)
        return None
    return level


def _level(fd: int, parts: tuple[str, ...], room: int) -> _Level:
    try:
        return _Level(fd, parts, sorted(islice(names_in(fd), room + 1), reverse=True))
    except OSError:
        os.close(fd)
        raise


@dataclass(slots=True)
class Sum:
    """Files below a folder, all levels."""

    files: int = 0
    num_bytes: int = 0


@dataclass(frozen=True, slots=True)
class Seen:
    """One file. ``changed_s`` is in seconds since 1970, and whatever the job has set."""

    parts: tuple[str, ...]
    num_bytes: int
    changed_s: float


@dataclass(slots=True)
class Survey:
    """What a walk found.

    Attributes:
        files: All files, in order of their paths.
        folders: Sums by folder; the directory itself is ``()``.
        is_whole: Whether all was looked at; else the numbers are the least that it may be.
    """

    files: list[Seen] = field(default_factory=list)
    folders: dict[tuple[str, ...], Sum] = field(default_factory=lambda: {(): Sum()})
    is_whole: bool = True

    @property
    def all(self) -> Sum:
        """Return the sum of everything."""
        return self.folders[()]

    @property
    def newest(self) -> Seen | None:
        """Return the file that was written last."""
        return max(self.files, key=lambda seen: seen.changed_s, default=None)


def survey(files: JobFiles, *, most: int, most_s: float = math.inf) -> Survey:
    """Count the files of a job, looking at ``most`` names at most, and for so many seconds."""
    found, end_s = Survey(), time.monotonic() + most_s
    for number, one in enumerate(walk(files)):
        if number >= most or time.monotonic() > end_s:
            found.is_whole = False
            break
        if one.kind == "folder":
            found.folders[one.parts] = Sum()
            found.is_whole &= not one.closed
        elif one.kind == "file":
            found.files.append(Seen(one.parts, one.status.st_size, one.status.st_mtime))
            for depth in range(len(one.parts)):
                above = found.folders[one.parts[:depth]]
                above.files += 1
                above.num_bytes += one.status.st_size
    return found


def job_survey(job: Job, *, most: int, most_s: float = math.inf) -> Survey:
    """Count the files of a job by its directory. Raises NotFound, with why there are none."""
    with job_files(job) as files:
        return survey(files, most=most, most_s=most_s)
