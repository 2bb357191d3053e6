"""Which network interface has an address: torch must be told by name which one the ranks can reach each other on."""

import fcntl
import socket
import struct

_SIOCGIFADDR = 0x8915


def interface_of(address: str) -> str:
    """Return the name of the interface with this IPv4 address; empty when there is none."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, struct.pack("256s", name.encode()[:15]))
            except OSError:
                continue  # an interface without an address
            if socket.inet_ntoa(answer[20:24]) == address:
                return name
    return ""
