"""The line of those that wait to write to one SQLite database, in all threads and processes of this machine.

SQLite lets one connection write at a time; each other one asks again by itself after pauses that grow to a tenth of a
second. On a busy database the lock is seldom free at just that moment: some wait for seconds while later ones go first.
In line only the first asks, often, and what has just written goes to the end. The line gives no right to write, which
SQLite's lock does. Where the line cannot be had, as on a full disk, everything works as without it.
"""

import contextlib
import fcntl
import os
import threading
import time
from collections.abc import Iterator
from functools import lru_cache

# The first in line asks SQLite so often; the first of each process asks for the front of the line as often.
ASK_EVERY_S = 0.001


class Turns:
    """The line before one database."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._threads = threading.Lock()
        self._file = -1

    @contextlib.contextmanager
    def first(self, *, until_s: float) -> Iterator[None]:
        """Wait to be first, at most until a moment of the monotonic clock, and stay so in the block."""
        if not self._threads.acquire(timeout=max(0.0, until_s - time.monotonic())):
            yield
            return
        try:
            file = self._opened()
            while not _is_first(file) and time.monotonic() < until_s:
                time.sleep(ASK_EVERY_S)
            try:
                yield
            finally:
                if file >= 0:
                    with contextlib.suppress(OSError):
                        fcntl.flock(file, fcntl.LOCK_UN)
        finally:
            self._threads.release()

    def _opened(self) -> int:
        if self._file < 0:
            with contextlib.suppress(OSError):
                self._file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self._file


def _is_first(file: int) -> bool:
    """Return whether this process comes first now, or nothing can be waited for."""
    if file < 0:
        return True
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True  # as of a file system that knows no such locks
    return True


@lru_cache(maxsize=16)
def turns_of(database: str) -> Turns:
    """Return the line of this process before a database."""
    return Turns(f"{database}-turns")


# A child would share the place of its parent, and find its threads' lock as it was in that moment.
os.register_at_fork(after_in_child=turns_of.cache_clear)
