"""The control plane's ports over Redis: messages to agents, reports, early rounds, live frames.

Celery tasks are pushed to their queue directly, in kombu's format: one round trip instead of four, and a broker that is
down costs milliseconds instead of a client's retries.
"""

import asyncio
import base64
import json
import logging
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any, cast
from uuid import uuid4

import redis
from celery import current_app
from channels.layers import get_channel_layer
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from agents.protocol.signing import EXPIRES_AFTER_S, MAX_MESSAGE_BYTES

log = logging.getLogger(__name__)

WAKE_KEY = "scheduler.wake"
WAKE_MS = 4_000
TOUCHED_KEY = "scheduler.touched"
TOUCHED_MOST = 10_000
# Reports of one server taken at once, the newest. Each holds the whole state, so older ones are dropped: a scheduler
# that is late would check and read all of them, and be later still. More than one: the newest may be spoiled.
REPORTS_MOST = 4
# A list of reports that is larger is dropped unread, as a server may push what it likes; its newest report is tried.
REPORTS_BYTES_MOST = 2 * MAX_MESSAGE_BYTES
TURN_BYTES_MOST = 8 * REPORTS_BYTES_MOST  # of all servers in one turn; the others come first in the next
SERVERS_AT_ONCE = 16
LEFT_BYTES_MOST = 256 * 1024  # in any other key that a server may write
POLL_S = 0.05
GROUP_PREFIX = "asgi__group__"  # of channels_redis: the channel of each websocket group
# Stands for reports that were dropped unread.
TOO_LARGE = "too large"
# Desired states kept for an agent that is away; the newest holds the whole state.
DESIRED_MOST = 8
ROUND_EXPIRES_S = 30.0


# Returns the numbers of the lists that hold something. Keys after the first ARGV[1] are no lists of reports: what takes
# more than ARGV[2] bytes there goes.
FIND = """
local found = {}
for number = 1, tonumber(ARGV[1]) do
  local length = redis.pcall('LLEN', KEYS[number])
  if type(length) == 'table' or length > 0 then found[#found + 1] = number end
end
for number = ARGV[1] + 1, #KEYS do
  if (redis.call('MEMORY', 'USAGE', KEYS[number]) or 0) > tonumber(ARGV[2]) then
    redis.call('UNLINK', KEYS[number])
    found[#found + 1] = -number
  end
end
return found
"""
# Returns the bytes that were dropped, then the newest ARGV[1] items, oldest first. Sizes are checked where the items
# lie, so that no item is ever sent that does not fit. Another scheduler may have taken all since they were found.
TAKE = """
local key, keep, most = KEYS[1], tonumber(ARGV[1]), tonumber(ARGV[2])
local kind = redis.call('TYPE', key).ok
if kind == 'none' then return {0} end
if kind ~= 'list' then redis.call('UNLINK', key) return {1} end
redis.call('LTRIM', key, 0, keep - 1)
local bytes, dropped = redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0), 0
if bytes > most then
  dropped = bytes
  redis.call('LTRIM', key, 0, 0)
  if redis.call('MEMORY', 'USAGE', key, 'SAMPLES', 0) > most then redis.call('UNLINK', key) end
end
return {dropped, unpack(redis.call('RPOP', key, keep) or {})}
"""


def _texts(items: Sequence[bytes]) -> list[str]:
    return [item.decode(errors="replace") for item in items]


def _client(*, timeout_s: float) -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=timeout_s,
        socket_connect_timeout=timeout_s,
        retry=Retry(NoBackoff(), 1),  # one retry finds a connection that the server closed while it was idle
    )


def celery_message(*, task: str, args: Sequence[Any], queue: str, expires_s: float) -> str:
    """Return the text that kombu's Redis transport expects on the list ``queue`` for one call of ``task``."""
    # Every Celery application writes the same message, so the web process needs no task of ours.
    message = current_app.amqp.as_task_v2(
        str(uuid4()), task, list(args), {}, expires=expires_s, ignore_result=True, argsrepr=""
    )
    properties = {
        **{key: value for key, value in message.properties.items() if value is not None},
        "delivery_mode": 2,
        "delivery_info": {"exchange": "", "routing_key": queue},
        "priority": 0,
        "body_encoding": "base64",
        "delivery_tag": str(uuid4()),
    }
    return json.dumps(
        {
            "body": base64.b64encode(json.dumps(message.body).encode()).decode(),
            "content-encoding": "utf-8",
            "content-type": "application/json",
            "headers": message.headers,
            "properties": properties,
        },
        default=str,
    )


class RedisBell:
    """Wakes the scheduler's worker; at most one early round is pending."""

    def __init__(self) -> None:
        self._redis = _client(timeout_s=1.0)

    def request_round(self, trigger: str) -> None:
        """Ask for an early round, unless one is asked for already."""
        try:
            if self._redis.set(WAKE_KEY, trigger, nx=True, px=WAKE_MS):
                self._redis.lpush(
                    "scheduler",
                    celery_message(
                        task="scheduler.run_round", args=[trigger], queue="scheduler", expires_s=ROUND_EXPIRES_S
                    ),
                )
        except redis.RedisError as error:
            log.warning("round_not_requested", extra={"trigger": trigger, "error": str(error)})

    def round_begins(self) -> None:
        """Let the next change ask for a round again; called before the snapshot is read, so that nothing is missed."""
        try:
            self._redis.delete(WAKE_KEY)
        except redis.RedisError as error:
            log.warning("wake_not_cleared", extra={"error": str(error)})

    def touch(self, names: Sequence[str]) -> None:
        """Announce changes."""
        try:
            pipe = self._redis.pipeline(transaction=False)
            pipe.lpush(TOUCHED_KEY, *names)
            pipe.ltrim(TOUCHED_KEY, 0, TOUCHED_MOST - 1)
            pipe.execute()
        except redis.RedisError as error:
            log.debug("touch_not_sent", extra={"names": names[:9], "error": str(error)})


class RedisTransport:
    """Signed messages over the broker: desired states as Celery tasks, reports as plain lists."""

    def __init__(self) -> None:
        self._redis = _client(timeout_s=5.0)
        self._touched: list[str] = []
        # Positions among the servers: the one whose leftover keys were looked at last, and the one to begin with next.
        self._guarded = self._begin = 0

    def send_desired(self, messages: Mapping[str, str]) -> None:
        """Put desired states on the queues of their servers, in one round trip.

        Raises ConnectionError when there is no broker, or it does not take one of them.
        """
        pipe = self._redis.pipeline(transaction=False)
        texts: dict[str, str] = {}
        for server_id, message in messages.items():
            queue = f"server.{server_id}"
            texts[queue] = celery_message(
                task="agents.apply_desired_state", args=[message], queue=queue, expires_s=EXPIRES_AFTER_S
            )
            pipe.lpush(queue, texts[queue])
            pipe.ltrim(queue, 0, DESIRED_MOST - 1)
        try:
            lost: redis.RedisError | None = None
            for queue, refused in zip(texts, pipe.execute(raise_on_error=False)[::2], strict=True):
                if "WRONGTYPE" in str(refused):  # its server wrote there, and must not hold up the others
                    pipe.unlink(queue)
                    pipe.lpush(queue, texts[queue])
                elif isinstance(refused, redis.RedisError):
                    lost = refused
            pipe.execute()  # before any refusal is told: it belongs to another queue
            if lost is not None:
                raise lost
        except redis.RedisError as error:
            raise ConnectionError(str(error)) from error

    def send_report(self, server_id: str, message: str) -> None:
        """Put a report on the list of one server, as its agent does. Raises ConnectionError when there is no broker."""
        try:
            self._redis.lpush(f"reports.{server_id}", message)
        except redis.RedisError as error:
            raise ConnectionError(str(error)) from error

    def receive_reports(self, server_ids: Sequence[str], *, timeout_s: float) -> list[tuple[str, str]]:
        """Return what has arrived, oldest first for each server; wait at most ``timeout_s`` for the first.

        Also returns when a process touched something, see ``take_touched``. TOO_LARGE stands for what was dropped
        unread. Raises ConnectionError without a broker.
        """
        until_s = time.monotonic() + timeout_s
        try:
            while True:
                arrived = self._taken(server_ids)
                self._take_touched()
                left_s = until_s - time.monotonic()
                if arrived or self._touched or left_s <= 0:
                    return arrived
                # Waits for touches alone: a list that is waited for hands over whatever a server pushes next.
                first = cast(
                    "tuple[bytes, bytes] | None", self._redis.brpop([TOUCHED_KEY], timeout=min(left_s, POLL_S))
                )
                self._touched += _texts(first[1:] if first else [])
        except redis.RedisError as error:
            raise ConnectionError(str(error)) from error

    def _take_touched(self) -> None:
        pipe = self._redis.pipeline(transaction=False)
        pipe.rpop(TOUCHED_KEY, TOUCHED_MOST)
        pipe.ltrim(TOUCHED_KEY, 0, TOUCHED_MOST - 1)
        self._touched += _texts(pipe.execute()[0] or [])

    def _taken(self, server_ids: Sequence[str]) -> list[tuple[str, str]]:
        """Return the reports that wait, of a few servers at a time so that no answer of the broker is large."""
        found, arrived, read_bytes = self._found(server_ids), list[tuple[str, str]](), 0
        for start in range(0, len(found), SERVERS_AT_ONCE):
            if read_bytes > TURN_BYTES_MOST:
                self._begin = server_ids.index(found[start])
                break
            some = found[start : start + SERVERS_AT_ONCE]
            pipe = self._redis.pipeline(transaction=False)
            for server_id in some:
                pipe.eval(TAKE, 1, f"reports.{server_id}", str(REPORTS_MOST), str(REPORTS_BYTES_MOST))
            for server_id, (dropped_bytes, *items) in zip(some, pipe.execute(), strict=True):
                arrived += [(server_id, text) for text in _texts(items)]
                read_bytes += sum(map(len, items))
                if dropped_bytes:
                    log.warning("reports_too_large", extra={"server": server_id, "bytes": dropped_bytes})
                    arrived.append((server_id, TOO_LARGE))
        return arrived

    def _found(self, server_ids: Sequence[str]) -> list[str]:
        """Return the servers whose reports wait, and look at what one of all servers left elsewhere in the broker."""
        if not server_ids:
            return []
        order = [*server_ids[self._begin :], *server_ids[: self._begin]]
        self._begin, self._guarded = 0, (self._guarded + 1) % len(server_ids)
        guarded = server_ids[self._guarded]
        left = [f"hb:{guarded}", *(f"_kombu.binding{kind}.server.{guarded}" for kind in ("", "_permanent"))]
        keys = [*(f"reports.{server_id}" for server_id in order), *left]
        numbers = cast("list[int]", self._redis.eval(FIND, len(keys), *keys, str(len(order)), str(LEFT_BYTES_MOST)))
        for number in numbers:
            if number < 0:
                log.warning("server_left_too_much", extra={"server": guarded, "key": keys[-number - 1]})
        return [order[number - 1] for number in numbers if number > 0]

    def take_touched(self) -> list[str]:
        """Return the names that other processes touched since the last call."""
        touched, self._touched = self._touched, []
        return touched


FRAME = "live.frame"
# Kinds of frames that tell all of what their group is about: a newer one makes an older one needless.
WHOLE = frozenset({"cluster", "queue", "job"})


def frame_message(group: str, kind: str, data: Mapping[str, Any]) -> dict[str, str]:  # JSON data of a page
    """Return what the channel layer carries: the frame as the browser gets it, written once for all who listen."""
    replaces = group if kind in WHOLE else ""
    return {"type": FRAME, "text": json.dumps({"kind": kind, "data": dict(data)}), "replaces": replaces}


class ChannelFrames:
    """Sends frames to the channel layer from threads, through one event loop that lives as long as the process."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()
        self._redis = _client(timeout_s=1.0)

    def watched(self) -> set[str] | None:
        """Return the groups that have a subscriber; None where the broker does not say."""
        try:
            channels = cast("list[bytes]", self._redis.pubsub_channels(f"{GROUP_PREFIX}*"))
        except redis.RedisError as error:  # away, or its users are from before this was asked
            log.debug("watched_not_known", extra={"error": str(error)})
            return None
        return {name.removeprefix(GROUP_PREFIX) for name in _texts(channels)}

    def send(self, group: str, kind: str, data: Mapping[str, Any]) -> None:  # JSON data of a page
        """Send one frame to the subscribers of ``group``."""
        layer = get_channel_layer()
        if layer is None:
            return
        sending = layer.group_send(group, frame_message(group, kind, data))
        future = asyncio.run_coroutine_threadsafe(sending, self._running_loop())
        try:
            future.result(timeout=2.0)
        except (OSError, redis.RedisError, TimeoutError) as error:
            log.debug("frame_not_sent", extra={"group": group, "error": str(error)})

    def _running_loop(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="frames", daemon=True).start()
            return self._loop
