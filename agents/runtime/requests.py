"""Requests of the supervisor to the job: a request file and SIGTERM, read between two mini-batches only.

A request is ``{"id": n, "request": "checkpoint" | "park" | "continue" | "stop"}``, put in place by a rename and left
there; a higher id is a new request. SIGTERM means ``stop``.
"""

import json
import os
import signal
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Literal

Request = Literal["checkpoint", "park", "continue", "stop"]
REQUESTS: tuple[Request, ...] = ("checkpoint", "park", "continue", "stop")
Handler = Callable[[int, FrameType | None], object] | int


class RequestFile:
    """Finds new requests; costs one ``stat`` when there is none.

    Attributes:
        newest: Id of the request that was returned last.
    """

    def __init__(self, path: Path | None) -> None:
        self.newest = -1
        self._path = path
        self._seen: tuple[int, int, int] | None = None

    def poll(self) -> Request | None:
        """Return a request that was not returned before; None also for a file that holds no request of ours."""
        if self._path is None:
            return None
        try:
            status = os.stat(self._path)
        except OSError:
            return None
        identity = (status.st_ino, status.st_mtime_ns, status.st_size)
        if identity == self._seen:
            return None
        self._seen = identity
        try:
            data = json.loads(self._path.read_bytes())
            number, request = data["id"], data["request"]
        except (OSError, ValueError, KeyError, TypeError):
            return None
        if not isinstance(number, int) or number <= self.newest or request not in REQUESTS:
            return None
        self.newest = number
        return REQUESTS[REQUESTS.index(request)]


class StopSignal:
    """Turns SIGTERM into a flag while training runs; outside of that the process dies by it as usual."""

    def __init__(self) -> None:
        self.received = False
        self._pid = os.getpid()
        self._before: Handler | None = None

    def install(self) -> None:
        """Start to listen. Python allows that in the main thread only; elsewhere SIGTERM keeps its usual meaning."""
        if self._before is None and threading.current_thread() is threading.main_thread():
            self._before = signal.signal(signal.SIGTERM, self._handle) or signal.SIG_DFL

    def remove(self) -> None:
        """Give SIGTERM the meaning back that it had before."""
        if self._before is not None:
            signal.signal(signal.SIGTERM, self._before)
            self._before = None

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if os.getpid() != self._pid:  # a forked helper, such as a data loader, must still be endable
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
        self.received = True
