"""HTTP POST to an address that a user entered: resolved once, checked, and connected to exactly what was checked.

What may be connected to is decided by ``scheduler/services/public_address.py``. Redirects are not followed, only the
status of the answer is read, and one deadline ends the whole exchange: the look-up of the name, connecting, TLS, the
message and the head of the answer.
Held right by ``tests/integration/notices/test_safe_http.py``.
"""

import contextlib
import http.client
import queue
import socket
import ssl
import threading
import time
from collections.abc import Mapping, Sequence

from scheduler.services.public_address import AddressRefused, CheckedAddress, Network, Resolve, check_address, resolve

DEADLINE_S = 10.0


class Deadline:
    """Ends everything that is under way when its time is over; a socket's own timeout restarts with every byte."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._until_s = time.monotonic() + seconds
        self._lock = threading.Lock()
        self._sock: socket.socket | None = None
        self._is_over = False
        self._timer = threading.Timer(seconds, self._cut)
        self._timer.daemon = True
        self._timer.start()

    def left_s(self) -> float:
        """Return the seconds that are left. Raises TimeoutError when there are none."""
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        return left_s

    def watch(self, sock: socket.socket) -> None:
        """Cut this connection in time, from the first byte of TLS on."""
        with self._lock:
            self._sock = sock
            if self._is_over:
                self._shut()

    def end(self) -> bool:
        """Stop; return whether the time was over."""
        self._timer.cancel()
        with self._lock:
            self._sock = None
            return self._is_over

    def _cut(self) -> None:
        with self._lock:
            self._is_over = True
            self._shut()

    def _shut(self) -> None:
        if self._sock is not None:
            with contextlib.suppress(OSError):  # it has ended by itself
                socket.socket.shutdown(self._sock, socket.SHUT_RDWR)  # that of TLS changes what another thread uses


def resolve_within(deadline: Deadline, resolve: Resolve = resolve) -> Resolve:
    """Return ``resolve`` with an end: the system's look-up has none that we could set, so its thread is left behind."""

    def look_up(host: str, port: int) -> Sequence[str]:
        answers: queue.SimpleQueue[Sequence[str] | AddressRefused] = queue.SimpleQueue()

        def ask() -> None:
            try:
                answers.put(resolve(host, port))
            except AddressRefused as error:
                answers.put(error)

        threading.Thread(target=ask, name="resolve", daemon=True).start()
        try:
            answer = answers.get(timeout=deadline.left_s())
        except (queue.Empty, TimeoutError):
            raise AddressRefused(f"{host} was not found within {deadline.seconds:g} s.") from None
        if isinstance(answer, AddressRefused):
            raise answer
        return answer

    return look_up


class _Plain(http.client.HTTPConnection):
    """Connects to the checked address, even if the name has changed since."""

    def __init__(self, target: CheckedAddress, deadline: Deadline) -> None:
        super().__init__(target.host, target.port)
        self._ip, self._deadline = target.ip, deadline

    def connect(self) -> None:
        self.sock = socket.create_connection((self._ip, self.port), self._deadline.left_s())
        self._deadline.watch(self.sock)


class _Secure(http.client.HTTPSConnection):
    """The same; the certificate must be of the name."""

    def __init__(self, target: CheckedAddress, deadline: Deadline, context: ssl.SSLContext) -> None:
        super().__init__(target.host, target.port, context=context)
        self._ip, self._deadline, self._tls = target.ip, deadline, context

    def connect(self) -> None:
        raw = socket.create_connection((self._ip, self.port), self._deadline.left_s())
        try:
            secure = self._tls.wrap_socket(raw, server_hostname=self.host, do_handshake_on_connect=False)
        except BaseException:
            raw.close()
            raise
        self.sock = secure
        self._deadline.watch(secure)
        secure.do_handshake()


def post(
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    *,
    allowed: Sequence[Network],
    resolve: Resolve = resolve,
    deadline_s: float = DEADLINE_S,
    context: ssl.SSLContext | None = None,
) -> int:
    """Check an address, send ``body`` to it and return the status of the answer.

    Args:
        allowed: As for ``check_address``.
        deadline_s: For everything together: the look-up, connecting, TLS, sending, and the head of the answer.
        context: Which certificates are trusted; None: those of the system.

    Raises:
        AddressRefused: It may not be used; or no connection, no answer in time, or no HTTP.
    """
    deadline = Deadline(deadline_s)
    try:
        target = check_address(url, allowed=allowed, resolve=resolve_within(deadline, resolve))
        return _exchange(target, body, headers, deadline, context)
    finally:
        deadline.end()


def _exchange(
    target: CheckedAddress,
    body: bytes,
    headers: Mapping[str, str],
    deadline: Deadline,
    context: ssl.SSLContext | None,
) -> int:
    if target.scheme == "https":
        connection: http.client.HTTPConnection = _Secure(target, deadline, context or ssl.create_default_context())
    else:
        connection = _Plain(target, deadline)
    try:
        connection.request("POST", target.path, body, dict(headers))
        status = connection.getresponse().status
        if deadline.end():  # a connection cut here looks like a complete answer
            raise TimeoutError
        return status
    except (OSError, http.client.HTTPException) as error:
        if deadline.end() or isinstance(error, TimeoutError):
            raise AddressRefused(f"No answer within {deadline.seconds:g} s.") from None
        if isinstance(error, ssl.SSLError):
            raise AddressRefused(f"Its certificate was not accepted: {error.reason or 'no TLS'}.") from None
        raise AddressRefused(f"The connection failed: {type(error).__name__}.") from None
    finally:
        connection.close()
