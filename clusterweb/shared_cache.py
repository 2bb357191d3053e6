"""A cache of Django in the broker, so that all web processes count together; in this process alone while it is away.

Values are JSON. Django's own cache reads pickle, which runs code, and we are not the only ones who write to the broker.
"""

import json
import logging
import time
from collections.abc import Callable
from functools import lru_cache
from typing import Any, ClassVar

import redis
from django.core.cache.backends.locmem import LocMemCache
from django.core.cache.backends.redis import RedisCache, RedisCacheClient
from redis.backoff import NoBackoff
from redis.retry import Retry

log = logging.getLogger(__name__)

WITHIN_S = 1.0
AWAY_S = 5.0  # a broker that does not answer holds up one request in so long, not each


@lru_cache(maxsize=4)
def _client(url: str) -> redis.Redis:
    """Return the client of the process: Django makes a cache for each thread, and one request often has one."""
    return redis.Redis.from_url(
        url, socket_timeout=WITHIN_S, socket_connect_timeout=WITHIN_S, retry=Retry(NoBackoff(), 1)
    )


class _Json:
    dumps, loads = staticmethod(json.dumps), staticmethod(json.loads)


class _Client(RedisCacheClient):
    _servers: list[str]  # set by Django

    def get_client(self, key: object = None, *, write: bool = False) -> redis.Redis:
        return _client(self._servers[0])

    def count(self, key: str, within_s: int) -> int:
        pipe = self.get_client(key, write=True).pipeline(transaction=False)
        pipe.incrby(key, 1)
        pipe.expire(key, within_s)
        return int(pipe.execute()[0])


class _InBroker(RedisCache):
    _cache: _Client  # made by Django

    def count(self, key: str, *, within_s: int) -> int:
        return self._cache.count(self.make_and_validate_key(key), within_s)


class LocalCache(LocMemCache):
    """The same within one process, where there is no broker."""

    def count(self, key: str, *, within_s: int) -> int:
        """Add one to a number and return it."""
        self.add(key, 0, timeout=within_s)
        return int(self.incr(key))


def _in_broker_or_here(name: str) -> Callable[..., Any]:
    """Return a method that asks the broker, or this process while the broker is away."""

    def call(self: "SharedCache", *args: Any, **kwargs: Any) -> Any:
        if time.monotonic() >= SharedCache.away_until_s:
            try:
                return getattr(_InBroker, name)(self, *args, **kwargs)
            except redis.RedisError as error:
                SharedCache.away_until_s = time.monotonic() + AWAY_S
                log.warning("shared_cache_away", extra={"error": str(error)})
        return getattr(self.here, name)(*args, **kwargs)

    return call


class SharedCache(_InBroker):
    """The cache ``shared`` of the settings. Each method answers, also without a broker.

    ``count(key, within_s=...)`` adds one to a number, which is forgotten that long after the last time, and returns it:
    one message to the broker instead of three.
    """

    away_until_s: ClassVar[float] = 0.0

    def __init__(self, server: str, params: dict[str, Any]) -> None:  # Django's own signature
        super().__init__([server], {**params, "OPTIONS": {"serializer": _Json}})
        self._class = _Client
        self.here = LocalCache("shared-cache", params)

    add = _in_broker_or_here("add")
    get = _in_broker_or_here("get")
    get_many = _in_broker_or_here("get_many")
    set = _in_broker_or_here("set")
    touch = _in_broker_or_here("touch")
    delete = _in_broker_or_here("delete")
    incr = _in_broker_or_here("incr")
    count = _in_broker_or_here("count")

    def clear(self) -> None:
        """Refuse: Django would empty the whole broker."""
        raise NotImplementedError
