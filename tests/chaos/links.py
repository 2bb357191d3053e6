"""A link through a proxy of ours, as between an agent and the broker, so that it can be cut and slowed without root."""

import contextlib
import selectors
import socket
import threading
import time
from collections import deque
from pathlib import Path

PIECE = 65_536
LOOK_S = 0.05


def unix_door(path: Path) -> socket.socket:
    """Return a socket that listens at a path."""
    path.unlink(missing_ok=True)
    door = socket.socket(socket.AF_UNIX)
    door.bind(str(path))
    return door


class Link:
    """A socket that passes on to the broker's. ``is_cut`` and ``delay_s`` may be set at any time.

    A cut link carries nothing, and its connections stay open: neither side is told, as when a cable is pulled.
    """

    def __init__(self, door: socket.socket, target: Path | int) -> None:
        self.is_cut = False
        self.delay_s = 0.0
        self.target = target  # of new connections: a socket's path, or a port of this machine
        self._selector = selectors.DefaultSelector()
        self._peers: dict[socket.socket, socket.socket] = {}
        self._waiting: deque[tuple[float, socket.socket, bytes]] = deque()
        self._stopping = threading.Event()
        self._door = door
        self._door.listen()
        self._selector.register(self._door, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._carry, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Close everything."""
        self._stopping.set()
        self._thread.join()
        for end in [*self._peers, self._door]:
            end.close()

    def _carry(self) -> None:
        while not self._stopping.is_set():
            if self.is_cut:
                self._stopping.wait(LOOK_S)
                continue
            ready = self._selector.select(LOOK_S if not self._waiting else 0.005)
            if self.is_cut:  # while it waited
                continue
            for key, _ in ready:
                if key.fileobj is self._door:
                    self._open()
                else:
                    self._read(key.fileobj)  # type: ignore[arg-type]  # we register sockets alone
            while self._waiting and self._waiting[0][0] <= time.monotonic():
                _, end, content = self._waiting.popleft()
                try:
                    end.sendall(content)
                except OSError:
                    self._close(end)

    def _open(self) -> None:
        near, _ = self._door.accept()
        by_port = isinstance(self.target, int)
        far = socket.socket(socket.AF_INET if by_port else socket.AF_UNIX)
        try:
            far.connect(("127.0.0.1", self.target) if by_port else str(self.target))
        except OSError:
            near.close()
            far.close()
            return
        self._peers[near], self._peers[far] = far, near
        for end in (near, far):
            self._selector.register(end, selectors.EVENT_READ)

    def _read(self, end: socket.socket) -> None:
        if end not in self._peers:
            return
        try:
            content = end.recv(PIECE)
        except OSError:
            content = b""
        if content:
            self._waiting.append((time.monotonic() + self.delay_s, self._peers[end], content))
        else:
            self._close(end)

    def _close(self, end: socket.socket) -> None:
        for one in (end, self._peers.pop(end, None)):
            if one is not None:
                self._peers.pop(one, None)
                with contextlib.suppress(KeyError, ValueError):
                    self._selector.unregister(one)
                one.close()
