"""Read and write files under a directory descriptor, atomically and safe against hostile jobs.

No path is walked and no symbolic link followed, whatever a job has put into its directory.
"""

import contextlib
import ctypes
import itertools
import os
import stat

MOST_BYTES = 8 * 1024 * 1024
_numbers = itertools.count()
_libc = ctypes.CDLL(None, use_errno=True)


def open_directory(path: str | bytes, *, dir_fd: int | None = None) -> int:
    """Return a descriptor of a directory that is not a symbolic link. Raises OSError."""
    return os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=dir_fd)


def read_at(dir_fd: int, name: str, *, most_bytes: int = MOST_BYTES) -> bytes | None:
    """Return the content of a regular file, or None when there is none, it is too large, or it cannot be read."""
    try:
        # NONBLOCK: opening a FIFO that a job put there must not hang.
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most_bytes:
            return None
        with open(descriptor, "rb", closefd=False) as file:
            return file.read(most_bytes)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def _write_temporary(dir_fd: int, name: str, content: bytes, *, durable: bool, reader: int | None = None) -> str:
    temporary = f".{name}.{os.getpid()}.{next(_numbers)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    descriptor = os.open(temporary, flags, 0o600, dir_fd=dir_fd)
    try:
        try:
            view = memoryview(content)
            while view:
                view = view[os.write(descriptor, view) :]
            if reader is not None:
                os.fchown(descriptor, -1, reader)
                os.fchmod(descriptor, 0o640)
            if durable:
                os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError:
        _remove(dir_fd, temporary)
        raise
    return temporary


def _remove(dir_fd: int, name: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name, dir_fd=dir_fd)


def write_at(dir_fd: int, name: str, content: bytes, *, durable: bool, reader: int | None = None) -> None:
    """Replace a file atomically; ``reader`` is a group that may read it beside us. Raises OSError."""
    temporary = _write_temporary(dir_fd, name, content, durable=durable, reader=reader)
    try:
        os.replace(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except OSError:
        _remove(dir_fd, temporary)
        raise
    if durable:
        os.fsync(dir_fd)


def create_at(dir_fd: int, name: str, content: bytes) -> bool:
    """Make a file with this content, durably; False when the name is taken. Raises OSError.

    A link of a complete file: no reader sees half of it, and of two makers exactly one succeeds, on NFS as well.
    """
    temporary = _write_temporary(dir_fd, name, content, durable=True)
    try:
        os.link(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)
    except FileExistsError:
        return False
    finally:
        _remove(dir_fd, temporary)
    os.fsync(dir_fd)
    return True


def overwrite_at(dir_fd: int, name: str, content: bytes) -> None:
    """Write over a file in place. Raises OSError.

    For a full disk only: the blocks are there already. A reader may see half of it and reads again.
    """
    descriptor = os.open(name, os.O_WRONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=dir_fd)
    try:
        if stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.pwrite(descriptor, content, 0)
            os.ftruncate(descriptor, len(content))
    finally:
        os.close(descriptor)


def file_system_sync(dir_fd: int) -> None:
    """Write everything through that lies on the file system of a directory, for trees of many files. Raises OSError."""
    if _libc.syncfs(dir_fd) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
