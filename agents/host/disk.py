"""Measure the disk use of an attempt, a little at a time: a million files must not stop the supervisor."""

import os
import stat
import time
from collections.abc import Iterator

from agents.files.atomic import open_directory

_BLOCK_BYTES = 512
_DEEPEST = 64
# A file system with less room than this is called full.
FULL_BYTES = 1024 * 1024


def _sizes(dir_fd: int, names: tuple[str, ...], depth: int = 0) -> Iterator[int]:
    """Yield the bytes of every file below the named entries; links are not followed. Yields often, so it can pause."""
    for name in names:
        try:
            status = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        except OSError:
            continue
        yield status.st_blocks * _BLOCK_BYTES
        if not stat.S_ISDIR(status.st_mode) or depth >= _DEEPEST:
            continue
        try:
            inner = open_directory(name, dir_fd=dir_fd)
        except OSError:
            continue
        try:
            yield from _sizes(inner, tuple(os.listdir(inner)), depth + 1)
        finally:
            os.close(inner)


class DiskMeter:
    """Measures what the job wrote into the attempt's directory, again and again.

    Attributes:
        num_bytes: Of the last walk that came to its end, or of the present one where that is more already.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        self.num_bytes = 0
        self._names = names
        self._walk: Iterator[int] | None = None
        self._sum = 0

    def step(self, dir_fd: int, *, budget_s: float) -> None:
        """Walk on for at most ``budget_s`` seconds."""
        end_s = time.monotonic() + budget_s
        if self._walk is None:
            self._walk, self._sum = _sizes(dir_fd, self._names), 0
        for size in self._walk:
            self._sum += size
            self.num_bytes = max(self.num_bytes, self._sum)
            if time.monotonic() > end_s:
                return
        self.num_bytes = self._sum
        self._walk = None


def is_full(dir_fd: int) -> bool:
    """Return whether the file system has no room left."""
    try:
        status = os.fstatvfs(dir_fd)
    except OSError:
        return False
    return status.f_blocks > 0 and status.f_bavail * status.f_frsize < FULL_BYTES
