"""HTTP POST to an address that a user entered: resolved once, checked, and connected to exactly what was checked.

Guards against server-side request forgery: every address of the name must be public, or in a network that the operator
allowed. Redirects are not followed, only the status of the answer is read, and one deadline ends the whole exchange:
the look-up of the name, connecting, TLS, the message and the head of the answer.
Held right by ``tests/integration/notices/test_safe_http.py``.
"""

import contextlib
import http.client
import ipaddress
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# IPv6 form of IPv4 addresses; the IPv4 address is checked.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")
DEADLINE_S = 10.0


class AddressRefused(Exception):
    """The address may not be used, or did not answer; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedAddress:
    """An address that was checked: connect to ``ip`` and nothing else."""

    scheme: str
    host: str
    port: int
    path: str
    ip: str


Resolve = Callable[[str, int], Sequence[str]]


def resolve(host: str, port: int) -> list[str]:
    """Return the addresses of a name, as the system knows them."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        raise AddressRefused(f"{host} has no address.") from None
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def check_address(url: str, *, allowed: Sequence[Network], resolve: Resolve = resolve) -> CheckedAddress:
    """Return the checked address of ``url``.

    Args:
        allowed: Networks that may be used although they are not public, and by plain HTTP.

    Raises:
        AddressRefused: The address is not public, or not HTTPS.
    """
    try:
        parts = urlsplit(url)
        port = parts.port or (443 if parts.scheme == "https" else 80)
    except ValueError:
        raise AddressRefused("The address cannot be read.") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise AddressRefused("The address must begin with https://.")
    ips = resolve(parts.hostname, port)
    for text in ips:  # one bad address refuses the name: which one is used must not matter
        ip = _seen_through(ipaddress.ip_address(text.partition("%")[0]))
        is_allowed = any(ip.version == network.version and ip in network for network in allowed)
        if not (is_allowed or _is_public(ip)):
            raise AddressRefused(f"{parts.hostname} leads to {ip}, which is no public address.")
        if parts.scheme != "https" and not is_allowed:
            raise AddressRefused("The address must begin with https://.")
    if not ips:
        raise AddressRefused(f"{parts.hostname} has no address.")
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return CheckedAddress(scheme=parts.scheme, host=parts.hostname, port=port, path=path, ip=ips[0])


def _seen_through(ip: Address) -> Address:
    """Return the IPv4 address that an IPv6 address stands for, if it stands for one."""
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return ip.ipv4_mapped
        if ip.sixtofour is not None:
            return ip.sixtofour
        if ip.teredo is not None:
            return ip.teredo[1]
        if ip in _NAT64:
            return ipaddress.IPv4Address(int(ip) & 0xFFFFFFFF)
    return ip


def _is_public(ip: Address) -> bool:
    return ip.is_global and not (ip.is_multicast or ip.is_reserved or ip.is_unspecified)


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
