"""What one process of a gang is told about the others, at launch and later. Pure.

A process of a gang is an attempt of its own to the agent of its server: its own directory, log and supervisor. Of a
gang of one process a GPU only the first, the leader, gets the list of members, and it alone decides when a newer
membership takes effect. A gang of one process a server does not change; each process is told all servers.
"""

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from agents.protocol.errors import Malformed
from agents.protocol.fields import ULID, read_int, read_list, read_str, read_strings

_ADDRESS = re.compile(r"[0-9A-Za-z.:_-]{1,253}")
_SECRET = re.compile(r"[0-9a-f]{32}")
# Far more ranks than any job may ask for GPUs.
MOST_MEMBERS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class GangHost:
    """One server of a gang that has one process a server: its address and its devices in the gang."""

    address: str
    slots: int

    @staticmethod
    def read(data: Any) -> "GangHost":
        """Read it out of JSON. Raises Malformed, KeyError."""
        if not isinstance(data, dict):
            raise Malformed("hosts")
        return GangHost(
            address=read_str(data, "address", pattern=_ADDRESS),
            slots=read_int(data, "slots", low=1, high=MOST_MEMBERS),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GangOrder:
    """Place of one process in a gang.

    Attributes:
        rank, size: Among the processes of the gang, at the start; rank 0 leads.
        version: Of the membership; a higher one replaces a lower one.
        members: Attempt ids by rank, the leader's first; for the leader alone, else empty.
        address, port: Where the leader listens, as the other servers reach it.
        secret: Known to the members alone.
        hosts: The servers, in the order of the ranks, of a gang that has one process a server; empty for one a GPU.
    """

    rank: int
    size: int
    version: int
    members: tuple[str, ...]
    address: str
    port: int
    secret: str
    hosts: tuple[GangHost, ...] = ()

    @staticmethod
    def read(data: Any) -> "GangOrder | None":
        """Read it out of JSON; None for None. Raises Malformed, KeyError."""
        if data is None:
            return None
        if not isinstance(data, dict):
            raise Malformed("gang")
        rank = read_int(data, "rank", high=MOST_MEMBERS)
        # A scheduler of before knows no such gangs.
        hosts = tuple(map(GangHost.read, read_list(data, "hosts", most=MOST_MEMBERS))) if "hosts" in data else ()
        if hosts and rank >= len(hosts):
            raise Malformed("rank")
        return GangOrder(
            rank=rank,
            size=read_int(data, "size", low=1, high=MOST_MEMBERS),
            version=read_int(data, "version"),
            members=read_members(data),
            address=read_str(data, "address", pattern=_ADDRESS),
            port=read_int(data, "port", low=1, high=65_535),
            secret=read_str(data, "secret", pattern=_SECRET),
            hosts=hosts,
        )


def read_members(data: dict[str, Any]) -> tuple[str, ...]:
    """Return the attempt ids of a membership. Raises Malformed."""
    members = read_strings(data, "members", most=MOST_MEMBERS, longest=26)
    if not all(ULID.fullmatch(member) for member in members) or len(set(members)) != len(members):
        raise Malformed("members")
    return members


def membership_file(*, version: int, members: tuple[str, ...]) -> bytes:
    """Return the content of ``gang.json``, which tells the leader its members."""
    return json.dumps({"version": version, "members": list(members)}).encode()


def host_file(hosts: Iterable[GangHost]) -> bytes:
    """Return the content of a hostfile, as MPI and DeepSpeed read it: a server and its devices a line."""
    return "".join(f"{host.address} slots={host.slots}\n" for host in hosts).encode()
