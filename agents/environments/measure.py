"""Bytes of environments and of uv's cache. uv lays files into an environment as hard links to its cache."""

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from agents.host.tree import descendants


def bytes_within(folder: Path) -> int:
    """Return the bytes of all files in a folder."""
    return sum(status.st_blocks * 512 for status in _files(folder))


def bytes_unshared(folder: Path) -> int:
    """Return the bytes of the files in a folder that no other folder holds too."""
    return sum(status.st_blocks * 512 for status in _files(folder) if status.st_nlink == 1)


def bytes_resident(root_pid: int) -> int:
    """Return the memory that the processes below one hold; pages that several share count for each."""
    pages = 0
    for process in descendants(root_pid, thorough=False):
        with contextlib.suppress(OSError, ValueError, IndexError):
            pages += int(Path(f"/proc/{process.pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def _files(folder: Path) -> Iterator[os.stat_result]:
    for root, _, names in os.walk(folder, onerror=None):
        for name in names:
            try:
                status = os.lstat(os.path.join(root, name))
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                yield status
