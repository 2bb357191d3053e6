"""Which addresses count together where requests and sign-ins are limited."""

import pytest

from scheduler.services.networks import network_of


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("2001:db8:0:7::1", "2001:db8:0:7::"),
        ("2001:DB8:0:7:ffff:ffff:ffff:ffff", "2001:db8:0:7::"),
        ("fe80::1%eth0", "fe80::"),
        ("::ffff:203.0.113.9", "203.0.113.9"),  # as a socket for both families shows IPv4
        ("", "unknown"),
        ("testclient", "unknown"),
    ],
)
def test_address_counts_as_its_network(address: str, network: str) -> None:
    """An address of IPv4, a /64 of IPv6: what one subscriber has."""
    assert network_of(address) == network
