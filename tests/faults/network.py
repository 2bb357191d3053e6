"""The broker and the wires to it: messages get lost, doubled, late, out of order, cut, spoiled, replayed and forged."""

import json
from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Literal

from agents.protocol.signing import Stamp, seal
from tests.faults.virtual import Trace, VirtualTime

DELAY_MOST_S = 60.0  # two leases
HISTORY = 200
KINDS = (
    *("drop", "double", "delay", "reorder", "truncate", "corrupt", "replay", "forge"),
    *("misdirect", "old_epoch", "sequence_jump"),
)


class Network:
    """All messages between the scheduler and the agents.

    Attributes:
        fault_frac: Fraction of messages that something happens to.
        is_down: The broker refuses.
        cut: Servers whose messages to the scheduler ("up") or from it ("down") get lost.
        keys: Keys of the servers, for forgers that have one.
        overtaken: Servers of which a forger with the key sent reports far ahead: their agents are heard again, if the
            scheduler believed it, once they have been started anew.
    """

    def __init__(self, *, time: VirtualTime, rng: Random, trace: Trace) -> None:
        self.fault_frac = 0.0
        self.is_down = False
        self.cut: set[tuple[str, str]] = set()
        self.keys: dict[str, bytes] = {}
        self.overtaken: set[str] = set()
        self.on_desired: dict[str, Callable[[], None]] = {}
        self.on_report: Callable[[], None] = lambda: None
        self._time, self._rng, self._trace = time, rng, trace
        self._desired: dict[str, list[str]] = {}
        self._reports: dict[str, list[str]] = {}
        self._history: list[tuple[str, str, str]] = []

    # ------------------------------------------------------------------ ports

    def send_desired(self, messages: Mapping[str, str]) -> None:
        """Carry messages to agents. Raises ConnectionError when there is no broker."""
        for server_id, message in messages.items():
            self._send("down", server_id, message)

    def send_report(self, server_id: str, message: str) -> None:
        """Carry a message to the scheduler. Raises ConnectionError when there is no broker."""
        self._send("up", server_id, message)

    def receive_reports(self, server_ids: Sequence[str], *, timeout_s: float) -> list[tuple[str, str]]:
        """Return the reports that wait."""
        self._reach()
        return [(server_id, text) for server_id in server_ids for text in self._reports.pop(server_id, [])]

    def take_desired(self, server_id: str) -> list[str]:
        """Return the messages that wait for an agent."""
        return [] if self.is_down else self._desired.pop(server_id, [])

    def take_touched(self) -> list[str]:
        """Return nothing: there are no live pages here."""
        return []

    # ------------------------------------------------------------------ faults

    def flush(self) -> None:
        """Lose all that waits."""
        self._desired.clear()
        self._reports.clear()

    def _reach(self) -> None:
        if self.is_down:
            raise ConnectionError("the broker is down")

    def _send(self, way: str, server_id: str, message: str) -> None:
        self._reach()
        if len(self._history) >= HISTORY:
            del self._history[: HISTORY // 2]
        self._history.append((way, server_id, message))
        if (server_id, way) in self.cut:
            return
        latency_s = 0.005 + 0.02 * self._rng.random()
        if self._rng.random() >= self.fault_frac:
            self._deliver_later(latency_s, way, server_id, message)
            return
        kind = self._rng.choice(KINDS)
        self._trace.fault(kind, way, server_id)
        for delay_s, text in self._spoiled(kind, way, server_id, message):
            self._deliver_later(latency_s + delay_s, way, server_id, text)

    def _spoiled(self, kind: str, way: str, server_id: str, message: str) -> list[tuple[float, str]]:
        """Return what arrives instead of one message, and how late."""
        rng = self._rng
        if kind == "drop":
            return []
        if kind == "double":
            return [(0.0, message), (DELAY_MOST_S * rng.random(), message)]
        if kind == "delay":
            return [(DELAY_MOST_S * rng.random(), message)]
        if kind == "reorder":
            return [(1.0 + 3.0 * rng.random(), message)]
        if kind == "truncate":
            return [(0.0, message[: rng.randrange(len(message))])]
        if kind == "corrupt":
            place = rng.randrange(len(message))
            return [(0.0, message[:place] + chr(rng.randrange(32, 127)) + message[place + 1 :])]
        if kind == "replay":
            old = [text for a_way, a_server, text in self._history if (a_way, a_server) == (way, server_id)]
            return [(0.0, message), (0.1, rng.choice(old))]
        if kind == "misdirect":
            others = [text for a_way, a_server, text in self._history if a_way == way and a_server != server_id]
            return [(0.0, message), *((0.1, text) for text in others[-1:])]
        return [(0.0, message), (0.1, self._forged(kind, way, server_id, message))]

    def _forged(self, kind: str, way: str, server_id: str, message: str) -> str:
        """Return the message as a forger would like it: newer, and everything has ended or runs on.

        Without the key, next in order or far ahead; or with it, but of the time before a restore; or with it and far
        ahead, a report that says what the server does: with its key, what it says of its own jobs is believed.
        """
        direction: Literal["desired", "report"] = "desired" if way == "down" else "report"
        body, stamp, now_s = _opened(message)
        overtakes = kind == "sequence_jump" and way == "up"
        for attempt in () if overtakes else body.get("attempts", []):
            if way == "up":
                attempt |= {"phase": "ended", "end_cause": "completed"}
            else:
                attempt |= {"wanted": "run"}
        if overtakes:
            self.overtaken.add(server_id)
        has_key = overtakes or kind == "old_epoch"
        ahead = 2 ** self._rng.randrange(8, 62) if kind == "sequence_jump" else 1
        return seal(
            key=self.keys[server_id] if has_key else bytes(32),
            direction=direction,
            server=server_id,
            stamp=Stamp(
                epoch=stamp.epoch - (kind == "old_epoch"),
                generation=stamp.generation,
                sequence=stamp.sequence + ahead,
            ),
            now_s=now_s,
            body=body,
        )

    def _deliver_later(self, delay_s: float, way: str, server_id: str, message: str) -> None:
        self._time.after(delay_s, lambda: self._deliver(way, server_id, message))

    def _deliver(self, way: str, server_id: str, message: str) -> None:
        if way == "down":
            self._desired.setdefault(server_id, []).append(message)
            self.on_desired[server_id]()
        else:
            self._reports.setdefault(server_id, []).append(message)
            self.on_report()


def _opened(message: str) -> tuple[dict[str, Any], Stamp, float]:
    """Return body, stamp and time of a message, whose content is readable by anybody on the wire."""
    content = json.loads(json.loads(message)["content"])
    stamp = Stamp(epoch=content["epoch"], generation=content["generation"], sequence=content["sequence"])
    return content["body"], stamp, content["expires_at"]
