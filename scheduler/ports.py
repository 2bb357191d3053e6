"""The ports of the control plane to the world: clock, broker, ids and live frames, bundled for the engine.

Services and the engine reach time, chance and the broker only through these, so that the whole system also runs in one
process on a virtual clock. The real ports are made here; those of tests are in ``tests/support/live/ports.py``.
"""

import secrets
import threading
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any, Protocol

from agents.protocol.clock import SystemClock
from agents.protocol.ports import Clock, Ids, Transport

_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


class Bell(Protocol):
    """Wakes the scheduler's worker from any process. Never raises: a lost call delays a round until the next beat."""

    def request_round(self, trigger: str) -> None:
        """Ask for an early round, unless one is asked for already."""

    def round_begins(self) -> None:
        """Let the next change ask for a round again; called before the snapshot is read, so that nothing is missed."""

    def touch(self, names: Sequence[str]) -> None:
        """Announce changes of ``cluster``, ``queue.<pk>`` or ``job.<ulid>``."""


class SchedulerTransport(Transport, Protocol):
    """The scheduler's end of the broker."""

    def take_touched(self) -> list[str]:
        """Return the names that other processes touched (see ``Bell.touch``) since the last call."""


class FrameSink(Protocol):
    """Sends live frames to browsers."""

    def watched(self) -> Set[str] | None:
        """Return the groups that have a subscriber; None where that is not known. Never raises."""

    def send(self, group: str, kind: str, data: Mapping[str, Any]) -> None:  # JSON data of a page
        """Send one frame to the subscribers of ``group``. Never raises."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ports:
    """The ports of the engine."""

    clock: Clock
    transport: SchedulerTransport
    ids: Ids
    frames: FrameSink


class UlidIds:
    """ULIDs that sort in the order they were made, within one process and while its clock does not go back.

    Those of one millisecond do as well. After the clock went back new ids are smaller than old ones, but never equal:
    their lower bits are drawn anew.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._last_ms = -1
        self._last_random = 0

    def ulid(self, at: datetime) -> str:
        """Return a new ULID of the moment ``at``."""
        at_ms = max(0, int(at.timestamp() * 1000))
        with self._lock:
            if at_ms == self._last_ms:
                self._last_random += 1
            else:
                # The top bit stays free, so that counting up within a millisecond never overflows.
                self._last_ms, self._last_random = at_ms, secrets.randbits(79)
            return ulid_text(at_ms, self._last_random)


def ulid_text(at_ms: int, random_80: int) -> str:
    """Return the 26 letters of a ULID out of milliseconds since 1970 and 80 random bits."""
    value = (at_ms << 80) | random_80
    return "".join(_CROCKFORD[(value >> shift) & 31] for shift in range(125, -1, -5))


@lru_cache(maxsize=1)
def live_ports() -> Ports:
    """Return the real ports of this process."""
    from scheduler.broker import ChannelFrames, RedisTransport

    return Ports(clock=SystemClock(), transport=RedisTransport(), ids=UlidIds(), frames=ChannelFrames())


@lru_cache(maxsize=1)
def live_bell() -> Bell:
    """Return the real bell of this process."""
    from scheduler.broker import RedisBell

    return RedisBell()
