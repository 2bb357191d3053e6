"""Which address a name leads to, and whether requests of users may go there.

Guards against server-side request forgery: every address of the name must be public, or in a network that the operator
allowed. The name is resolved once; callers connect to what was checked. Held right by
``tests/integration/notices/test_safe_http.py``.
"""

import ipaddress
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network
# IPv6 form of IPv4 addresses; the IPv4 address is checked.
_NAT64 = ipaddress.IPv6Network("64:ff9b::/96")


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


def written_addresses(host: str) -> list[str]:
    """Return the addresses that a host names by itself, without asking for its name; empty for all other names."""
    if host == "localhost" or host.endswith(".localhost"):
        return ["127.0.0.1"]
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        return []


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
