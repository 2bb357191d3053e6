"""The control plane's ports over Redis: messages to agents, reports, early rounds, live frames.

Celery tasks are pushed to their queue directly, in kombu's format: one round trip instead of four, and a broker that is
down costs milliseconds instead of a client's retries.
"""

import asyncio
import base64
import json
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import Any, cast
from uuid import uuid4

import redis
from celery import current_app
from channels.layers import get_channel_layer
from django.conf import settings
from redis.backoff import NoBackoff
from redis.retry import Retry

from agents.protocol.signing import EXPIRES_AFTER_S

log = logging.getLogger(__name__)

WAKE_KEY = "scheduler.wake"
WAKE_MS = 2_000
TOUCHED_KEY = "scheduler.touched"
TOUCHED_MOST = 10_000
# Reports of one server taken at once. Each holds the whole state, so older ones are dropped.
REPORTS_MOST = 64
# Desired states kept for an agent that is away; the newest holds the whole state.
DESIRED_MOST = 8
ROUND_EXPIRES_S = 30.0


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

    def touch(self, name: str) -> None:
        """Announce a change of ``name``."""
        try:
            pipe = self._redis.pipeline(transaction=False)
            pipe.lpush(TOUCHED_KEY, name)
            pipe.ltrim(TOUCHED_KEY, 0, TOUCHED_MOST - 1)
            pipe.execute()
        except redis.RedisError as error:
            log.debug("touch_not_sent", extra={"name_touched": name, "error": str(error)})


class RedisTransport:
    """Signed messages over the broker: desired states as Celery tasks, reports as plain lists."""

    def __init__(self) -> None:
        self._redis = _client(timeout_s=5.0)
        self._touched: list[str] = []

    def send_desired(self, server_id: str, message: str) -> None:
        """Put the desired state on the queue of one server. Raises ConnectionError when there is no broker."""
        queue = f"server.{server_id}"
        text = celery_message(task="agents.apply_desired_state", args=[message], queue=queue, expires_s=EXPIRES_AFTER_S)
        try:
            pipe = self._redis.pipeline(transaction=False)
            pipe.lpush(queue, text)
            pipe.ltrim(queue, 0, DESIRED_MOST - 1)
            pipe.execute()
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

        Also returns when a process touched something, see ``take_touched``. Raises ConnectionError without a broker.
        """
        keys = [*(f"reports.{server_id}" for server_id in server_ids), TOUCHED_KEY]
        try:
            first = cast("tuple[bytes, bytes] | None", self._redis.brpop(keys, timeout=max(0.05, timeout_s)))
            if first is None:
                return []
            pipe = self._redis.pipeline(transaction=False)
            for key in keys:
                most = TOUCHED_MOST if key == TOUCHED_KEY else REPORTS_MOST
                pipe.rpop(key, most)
                pipe.ltrim(key, 0, most - 1)
            answers = pipe.execute()
        except redis.RedisError as error:
            raise ConnectionError(str(error)) from error
        arrived = {key: list(items or []) for key, items in zip(keys, answers[::2], strict=True)}
        arrived[first[0].decode()].insert(0, first[1])
        self._touched += _texts(arrived.pop(TOUCHED_KEY))
        return [(key.removeprefix("reports."), text) for key, items in arrived.items() for text in _texts(items)]

    def take_touched(self) -> list[str]:
        """Return the names that other processes touched since the last call."""
        touched, self._touched = self._touched, []
        return touched


class ChannelFrames:
    """Sends frames to the channel layer from threads, through one event loop that lives as long as the process."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._lock = threading.Lock()

    def send(self, group: str, kind: str, data: Mapping[str, Any]) -> None:  # JSON data of a page
        """Send one frame to the subscribers of ``group``."""
        layer = get_channel_layer()
        if layer is None:
            return
        message = {"type": "live.frame", "kind": kind, "data": dict(data)}
        future = asyncio.run_coroutine_threadsafe(layer.group_send(group, message), self._running_loop())
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
