"""Connections to the Redis-protocol server, by TCP or by a private unix socket."""

from functools import lru_cache
from urllib.parse import quote, urlsplit

import redis


def celery_broker_url(redis_url: str) -> str:
    """Return the URL in Celery's spelling: ``unix://:password@/path`` is ``redis+socket://:password@/path`` there."""
    parts = urlsplit(redis_url)
    if parts.scheme != "unix":
        return redis_url
    user = f"{parts.username or ''}:{quote(parts.password, safe='')}@" if parts.password else ""
    return f"redis+socket://{user}{parts.path}"


@lru_cache(maxsize=4)
def redis_client(redis_url: str) -> redis.Redis:
    """Return the process's client of the server; it reconnects by itself."""
    return redis.Redis.from_url(redis_url, socket_timeout=10, socket_connect_timeout=5, health_check_interval=30)
