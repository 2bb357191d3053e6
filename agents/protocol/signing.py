"""Signed messages between the scheduler and the agents, version 1.

Scheduler to agent: the whole desired state of one server. Agent to scheduler: the whole actual state of one server,
which is its heartbeat as well. Both are level-triggered: a message lost, doubled, late or out of order changes nothing,
as the next one holds the whole state again. Pure: the caller passes the time. This file decides how a message is
signed, ordered and aged; its content is in ``desired_state.py`` and ``server_report.py``, and is exported here as well.
"""

import hashlib
import hmac
import json
from dataclasses import dataclass
from typing import Any, Literal

from agents.protocol.desired_state import WANTED as WANTED
from agents.protocol.desired_state import AttemptWanted as AttemptWanted
from agents.protocol.desired_state import DesiredState as DesiredState
from agents.protocol.desired_state import Wanted as Wanted
from agents.protocol.errors import Expired as Expired
from agents.protocol.errors import Forged as Forged
from agents.protocol.errors import Malformed as Malformed
from agents.protocol.errors import Misdirected as Misdirected
from agents.protocol.errors import ProtocolError as ProtocolError
from agents.protocol.fields import FILE_NAME as FILE_NAME
from agents.protocol.fields import SERVER_ID as SERVER_ID
from agents.protocol.fields import ULID as ULID
from agents.protocol.fields import read_float, read_int
from agents.protocol.server_report import PHASES as PHASES
from agents.protocol.server_report import SIMULATED as SIMULATED
from agents.protocol.server_report import AttemptPhase as AttemptPhase
from agents.protocol.server_report import AttemptReport as AttemptReport
from agents.protocol.server_report import DeviceReport as DeviceReport
from agents.protocol.server_report import ServerReport as ServerReport

PROTOCOL = 1
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
EXPIRES_AFTER_S = 600.0


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Stamp:
    """Order of messages of one direction: newer is larger.

    Attributes:
        epoch: Raised when the database is restored, moved or reset.
        generation: Raised when the desired state of the server changes.
        sequence: Raised by every message.
    """

    epoch: int
    generation: int
    sequence: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Envelope:
    """One opened message.

    Attributes:
        server: Id of the server it is to or from.
        stamp: Its place in the order of its direction.
        expires_at_s: Unix time after which it is ignored.
        body: Parsed by ``DesiredState.parse`` or ``ServerReport.parse``.
    """

    server: str
    stamp: Stamp
    expires_at_s: float
    body: dict[str, Any]  # JSON; parsed into a dataclass by the receiver at once


def _mac(key: bytes, content: bytes) -> str:
    return hmac.new(key, content, hashlib.sha256).hexdigest()


def seal(
    *,
    key: bytes,
    direction: Literal["desired", "report"],
    server: str,
    stamp: Stamp,
    now_s: float,
    body: dict[str, Any],
) -> str:
    """Return the signed message as text. ``now_s`` is Unix time; the message expires 600 s later."""
    content = json.dumps(
        {
            "protocol": PROTOCOL,
            "direction": direction,
            "server": server,
            "epoch": stamp.epoch,
            "generation": stamp.generation,
            "sequence": stamp.sequence,
            "expires_at": now_s + EXPIRES_AFTER_S,
            "body": body,
        },
        separators=(",", ":"),
        allow_nan=False,
    )
    return json.dumps({"content": content, "mac": _mac(key, content.encode())})


def _genuine(key: bytes, message: str) -> str:
    """Return the signed content. Raises Malformed, Forged."""
    if len(message) > MAX_MESSAGE_BYTES:
        raise Malformed(f"{len(message)} characters")
    try:
        outer = json.loads(message)
        content, mac = outer["content"], outer["mac"]
        # Encoding fails for lone surrogates, which JSON can carry and we never send.
        signed, given = content.encode(), mac.encode()
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise Malformed(type(error).__name__) from None
    if not hmac.compare_digest(_mac(key, signed).encode(), given):
        raise Forged("The signature does not fit.")
    return str(content)


def unseal(*, key: bytes, direction: Literal["desired", "report"], server: str, message: str, now_s: float) -> Envelope:
    """Return the message if it is genuine, for (or from) this server and fresh.

    Raises:
        ProtocolError: One of its kinds. The caller counts it and does nothing else.
    """
    content = _genuine(key, message)
    try:
        inner = json.loads(content)
        stamp = Stamp(
            epoch=read_int(inner, "epoch"),
            generation=read_int(inner, "generation"),
            sequence=read_int(inner, "sequence"),
        )
        expires_at_s = read_float(inner, "expires_at", high=1e12)
        if inner["protocol"] != PROTOCOL or inner["direction"] != direction or inner["server"] != server:
            raise Misdirected(f"{inner['server']} {inner['direction']} {inner['protocol']}"[:200])
        body = inner["body"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Malformed(type(error).__name__) from None
    if now_s > expires_at_s:
        raise Expired(f"{now_s - expires_at_s:.0f} s ago")
    if not isinstance(body, dict):
        raise Malformed("body")
    return Envelope(server=server, stamp=stamp, expires_at_s=expires_at_s, body=body)
