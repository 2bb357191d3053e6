"""Remove a directory that a job has written, a little at a time, however deep its folders lie in each other."""

import contextlib
import itertools
import os
import time
from collections.abc import Iterator

from agents.files.atomic import open_directory

_numbers = itertools.count()


def entry_remove(name: str, dir_fd: int, *, end_s: float) -> bool:
    """Remove whatever has this name, of a link the link alone; answers as ``tree_remove``. Raises OSError."""
    return _unlinked(name, dir_fd) or tree_remove(name, dir_fd, end_s=end_s)


def tree_remove(name: str, dir_fd: int, *, end_s: float) -> bool:
    """Remove a directory; return False when it cannot be removed, or not by ``end_s`` of the monotonic clock.

    What is in a folder is moved up beside it before the folder is removed, so only two folders are ever open.
    """
    try:
        top = _opened(name, dir_fd)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    try:
        with contextlib.suppress(OSError):
            for _ in _emptied(top):
                if time.monotonic() > end_s:
                    return False
            os.rmdir(name, dir_fd=dir_fd)
            return True
    finally:
        os.close(top)
    return False


def _emptied(top: int) -> Iterator[None]:
    while names := os.listdir(top):
        for entry in names:
            if not _unlinked(entry, top):
                yield from _flattened(entry, top)
            yield


def _flattened(folder: str, top: int) -> Iterator[None]:
    inner = _opened(folder, top)
    try:
        for entry in os.listdir(inner):
            if not _unlinked(entry, inner):
                os.close(_opened(entry, inner))  # a folder that its owner cannot write cannot be moved either
                os.rename(entry, f".{next(_numbers)}.{os.getpid()}", src_dir_fd=inner, dst_dir_fd=top)
            yield
    finally:
        os.close(inner)
    os.rmdir(folder, dir_fd=top)


def _unlinked(name: str, dir_fd: int) -> bool:
    """Remove an entry; return False for a folder."""
    try:
        os.unlink(name, dir_fd=dir_fd)
    except IsADirectoryError:
        return False
    except FileNotFoundError:
        pass
    return True


def _opened(name: str, dir_fd: int) -> int:
    """Open a folder, whatever rights the job has left on it."""
    path_fd = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        os.chmod(f"/proc/self/fd/{path_fd}", 0o700)  # no link: it is the descriptor of the folder itself
        return open_directory(".", dir_fd=path_fd)
    finally:
        os.close(path_fd)
