"""Faults of a chaos run reach the networks of hosts: their links are cut and slowed, their cables lose packets."""

import contextlib
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from tests.chaos.database import Sqlite
from tests.chaos.faults import Faults
from tests.chaos.hosts import Host, can_be_made, way_to_lose
from tests.chaos.links import Link

SENT, FRAC = 2_000, 0.25
COUNTS = """
import socket, sys
door = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
door.setsockopt(socket.SOL_SOCKET, 33, 1 << 24)  # SO_RCVBUFFORCE: all of them wait in it
door.bind((sys.argv[1], 9999))
print("ready", flush=True)
count = 0
while door.recv(16) != b"end":
    count += 1
print(count)
"""


def made_of(host: SimpleNamespace, link: SimpleNamespace, *, loses: str | None) -> Faults:
    """Return the faults of a product whose one host and one link are these."""
    return Faults(
        SimpleNamespace(),  # type: ignore[arg-type]  # of all that a product has, these faults need its links alone
        disk=SimpleNamespace(is_small=False),  # type: ignore[arg-type]  # as above
        links={"server-01": link},  # type: ignore[dict-item]  # as above
        database=Sqlite(Path("nowhere")),
        hosts=[host],  # type: ignore[list-item]  # as above
        loses=loses,
        rng=Random(1),
    )


def test_links_of_hosts_are_cut_and_slowed_as_those_of_agents() -> None:
    """Each fault hits the link that it says, and ends."""
    own, other = (SimpleNamespace(is_cut=False, delay_s=0.0) for _ in range(2))
    faults = made_of(SimpleNamespace(name="host-1", link=own), other, loses=None)
    hit, _, join = faults.begin("cut the link of a host")
    slowed, _, speed = faults.begin("slow the link of a host")

    assert hit == "host-1"
    assert slowed.startswith("host-1 by ")
    assert (own.is_cut, own.delay_s > 0.1) == (True, True)
    assert (other.is_cut, other.delay_s) == (False, 0.0)
    join()
    speed()
    assert (own.is_cut, own.delay_s) == (False, 0.0)
    assert "lose packets of a host" not in faults.kinds


@pytest.fixture
def host(processes: None) -> Iterator[Host]:
    """A namespace with its cable, without an agent."""
    if not can_be_made():
        pytest.skip("LOSS OF PACKETS IS NOT TESTED: no network namespace may be made here")
    made = Host(SimpleNamespace(), 77)  # type: ignore[arg-type]  # only its agent needs the product
    made.lay()
    yield made
    made.destroy()


def arrived(host: Host) -> int:
    """Return how many of the packets that are sent to a host arrive."""
    command = ["ip", "netns", "exec", host.space, sys.executable, "-S", "-c", COUNTS, host.there]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as counts,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as door,
    ):
        assert counts.stdout is not None
        counts.stdout.readline()
        for _ in range(SENT):
            door.sendto(b"one", (host.there, 9999))
        while counts.poll() is None:  # the last one may be lost, too
            door.sendto(b"end", (host.there, 9999))
        return int(counts.stdout.read())


def test_cable_loses_the_packets_that_it_is_told_to(host: Host) -> None:
    """A quarter of them, and none before and after."""
    way = way_to_lose()
    if way is None:
        pytest.skip("LOSS OF PACKETS IS NOT TESTED: no tc, or no netem and no filters in the kernel")
    before = arrived(host)
    host.lose(way, frac=FRAC)
    lossy = arrived(host)
    host.lose_none(way)

    assert before == arrived(host) == SENT
    assert abs(lossy - (1 - FRAC) * SENT) < 0.05 * SENT, lossy


def test_cut_link_carries_nothing_and_a_slow_one_late(connections: None) -> None:
    """Neither side is told."""
    door = socket.socket()
    door.bind(("127.0.0.1", 0))
    at = door.getsockname()
    with contextlib.ExitStack() as at_end:
        behind = at_end.enter_context(socket.create_server(("127.0.0.1", 0)))
        link = Link(door, behind.getsockname()[1])
        at_end.callback(link.stop)
        near = at_end.enter_context(socket.create_connection(at))
        far = at_end.enter_context(behind.accept()[0])
        near.sendall(b"one")
        assert far.recv(16) == b"one"
        link.is_cut = True
        near.sendall(b"two")
        far.settimeout(0.3)
        with pytest.raises(TimeoutError):
            far.recv(16)
        link.is_cut, link.delay_s = False, 0.5
        began_s = time.monotonic()
        far.settimeout(60)

        assert far.recv(16) == b"two"
        assert time.monotonic() - began_s > 0.4
