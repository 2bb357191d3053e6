"""The local directories of attempts: on the disk of their server, removed with them.

Made by supervisors. The agent alone removes them, a little at a time, as a job may leave a million files, and also
those of supervisors that were killed.
"""

import contextlib
import itertools
import os
import time
from collections.abc import Collection, Iterator

from agents.core.records import SCRATCH_DIR
from agents.files.atomic import open_directory
from agents.protocol.fields import ULID

_numbers = itertools.count()


def scratch_root(state_dir: str) -> str:
    """Return the folder of all scratch directories of a server."""
    return os.path.join(state_dir, SCRATCH_DIR)


def scratch_make(state_dir: str, attempt_id: str, *, uid: int | None) -> int:
    """Make the directory of an attempt; return the descriptor of the folder that it is in. Raises OSError."""
    root = scratch_root(state_dir)
    with contextlib.suppress(FileExistsError):
        os.mkdir(root, 0o700)
    root_fd = open_directory(root)
    try:
        os.mkdir(attempt_id, 0o700, dir_fd=root_fd)
        if uid is not None:
            os.fchmod(root_fd, 0o711)
            os.chown(attempt_id, uid, uid, dir_fd=root_fd, follow_symlinks=False)
    except OSError:
        os.close(root_fd)
        raise
    return root_fd


def scratch_left(state_dir: str, live: Collection[str]) -> list[str]:
    """Return the attempts that have a directory and do not run; ``live`` are those that may."""
    try:
        names = os.listdir(scratch_root(state_dir))
    except OSError:
        return []
    return sorted(name for name in names if ULID.fullmatch(name) and name not in live)


def scratch_remove(state_dir: str, attempt_ids: Collection[str], *, budget_s: float) -> None:
    """Remove directories for at most about ``budget_s`` seconds; what is left is found again."""
    end_s = time.monotonic() + budget_s
    try:
        root_fd = open_directory(scratch_root(state_dir))
    except OSError:
        return
    try:
        for attempt_id in attempt_ids:
            with contextlib.suppress(OSError):
                for _ in _emptied(attempt_id, root_fd):
                    if time.monotonic() > end_s:
                        return
                os.rmdir(attempt_id, dir_fd=root_fd)
    finally:
        os.close(root_fd)


def _emptied(name: str, root_fd: int) -> Iterator[None]:
    """Remove what is in a directory, an entry at a time, however deep its folders lie in each other.

    What is in a folder is moved up beside it before the folder is removed, so only two folders are ever open.
    """
    top = _opened(name, root_fd)
    try:
        while names := os.listdir(top):
            for entry in names:
                if not _unlinked(entry, top):
                    yield from _flattened(entry, top)
                yield
    finally:
        os.close(top)


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
