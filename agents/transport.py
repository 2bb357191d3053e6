"""The real Transport port of an agent: reports on a plain list of the broker.

Desired states come in as Celery tasks.
"""

import time
from typing import cast

import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

TIMEOUT_S = 3.0
# With so many reports unread the scheduler is away; more of them only fill the broker's memory.
BACKLOG_MOST = 120
BACKLOG_EVERY_S = 10.0


class RedisReportTransport:
    """Pushes reports. Any of them may be left out, as each holds the whole state of the server."""

    def __init__(self, url: str) -> None:
        self._redis = redis.Redis.from_url(
            url, socket_timeout=TIMEOUT_S, socket_connect_timeout=TIMEOUT_S, retry=Retry(NoBackoff(), 1)
        )
        self._unread = 0
        self._pushed_at_s = 0.0

    def send_report(self, server_id: str, message: str) -> None:
        """Push a signed report. Raises ConnectionError when there is no broker."""
        now_s = time.monotonic()
        if self._unread > BACKLOG_MOST and now_s - self._pushed_at_s < BACKLOG_EVERY_S:
            return
        try:
            self._unread = cast(int, self._redis.lpush(f"reports.{server_id}", message))  # the client is not async
            self._pushed_at_s = now_s
        except redis.RedisError as error:
            raise ConnectionError(str(error)) from error
