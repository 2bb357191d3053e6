"""Which network an address counts as where requests and sign-ins are limited.

One subscriber of IPv6 has 2^64 addresses and more; of IPv4 one address may stand for a whole office.
"""

import ipaddress

IPV6_PREFIX = 64


def network_of(address: str) -> str:
    """Return the network of an address as text: the IPv4 address itself, or the /64 of an IPv6 address."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return "unknown"
    if isinstance(ip, ipaddress.IPv6Address) and ip.ipv4_mapped is not None:
        ip = ip.ipv4_mapped
    return str(ip) if ip.version == 4 else str(ipaddress.ip_network((ip, IPV6_PREFIX), strict=False).network_address)
