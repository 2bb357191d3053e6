"""Health for load balancers and people on call: is the process alive, can it serve, which version is it.

Each part of readiness is one function that returns what it found, or raises Unready with the problem.
"""

import logging
import tomllib
from collections.abc import Callable
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TypedDict

import redis
from django.conf import settings
from django.db import Error, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe
from redis.backoff import NoBackoff
from redis.retry import Retry

from clusterweb.config.old_database import is_too_old
from scheduler.models import Cluster
from scheduler.ports import live_ports

log = logging.getLogger(__name__)

BROKER_WITHIN_S = 2.0
MISSED_ROUNDS = 3
ROUND_SLACK_S = 5.0
NO_ROUND = "no round has finished yet"  # the product starts for the first time
FAILING_AFTER = timedelta(seconds=5)


class Unready(Exception):
    """A part that requests need does not work; the text says why."""


class ReadyPart(TypedDict):
    """The state of one part in the answer of ``/readyz``."""

    ok: bool
    detail: str


def database() -> str:
    """Read one value from the database."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        cursor.fetchone()
    return f"{connection.vendor} answers"


def migrations() -> str:
    """Compare the applied migrations with the migrations of this version."""
    executor = MigrationExecutor(connection)
    if is_too_old(executor.loader):
        raise Unready("the database is of a version that cannot be brought up to date")
    missing = executor.migration_plan(executor.loader.graph.leaf_nodes())
    if missing:
        raise Unready(f"{len(missing)} migration(s) are not applied; run manage.py migrate")
    return "all applied"


def broker_client() -> redis.Redis:
    """Return a client that gives up soon: a check that hangs is worse than a check that fails."""
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=BROKER_WITHIN_S,
        socket_connect_timeout=BROKER_WITHIN_S,
        retry=Retry(NoBackoff(), 0),
    )


def broker() -> str:
    """Ping the Redis-protocol server."""
    client = broker_client()
    try:
        client.ping()
    except redis.RedisError as error:
        log.warning("broker_unready", extra={"error": str(error)})
        raise Unready("the Redis-protocol server does not answer") from None
    finally:
        client.close()
    return "answers"


def rounds() -> str:
    """Compare the age of the last finished round with the time between rounds."""
    row = Cluster.objects.filter(pk=1).only("round_number", "round_finished_at").first()
    if row is None or row.round_finished_at is None:
        raise Unready(NO_ROUND)
    age_s = (live_ports().clock.now() - row.round_finished_at).total_seconds()
    most_s = MISSED_ROUNDS * settings.ROUND_S + ROUND_SLACK_S
    if age_s > most_s:
        raise Unready(f"round {row.round_number} finished {age_s:.0f} s ago; at most {most_s:.0f} s are normal")
    return f"round {row.round_number} finished {age_s:.1f} s ago"


def steps() -> str:
    """Look for steps of scheduler and simulations that keep failing; what failed once and works again is no trouble."""
    row = Cluster.objects.filter(pk=1).only("failing_steps").first()
    now = live_ports().clock.now()
    failing = {
        name: datetime.fromisoformat(failure["since"]) for name, failure in (row.failing_steps if row else {}).items()
    }
    long = [f"{name} since {since:%H:%M:%S} UTC" for name, since in failing.items() if (now - since) >= FAILING_AFTER]
    if long:
        raise Unready(f"steps of the scheduler fail: {', '.join(long)}; the log of scheduler or simulations says why")
    return "all work"


PARTS: dict[str, Callable[[], str]] = {
    "database": database,
    "migrations": migrations,
    "broker": broker,
    "rounds": rounds,
    "steps": steps,
}


def _look(part: Callable[[], str]) -> ReadyPart:
    try:
        return {"ok": True, "detail": part()}
    except Unready as error:
        return {"ok": False, "detail": str(error)}
    except Error as error:
        log.warning("database_unready", exc_info=error)
        return {"ok": False, "detail": "the database does not answer as it should"}


def _no_store(body: object, status: int = 200) -> JsonResponse:
    return JsonResponse(body, status=status, safe=False, headers={"Cache-Control": "no-store"})


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """Answer 200 as long as the process serves requests."""
    return _no_store({"ok": True})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Answer 200 when every part works, else 503; each part with what was seen."""
    parts = {name: _look(part) for name, part in PARTS.items()}
    ready = all(part["ok"] for part in parts.values())
    answer = _no_store({"ready": ready, "parts": parts}, status=200 if ready else 503)
    if not ready:
        answer._has_been_logged = True  # type: ignore[attr-defined]  # else Django logs each 503 as an error
        log.log(
            logging.INFO if parts["rounds"]["detail"] == NO_ROUND else logging.WARNING,
            "not_ready",
            extra={name: part["detail"] for name, part in parts.items() if not part["ok"]},
        )
    return answer


@lru_cache(maxsize=1)
def version_text() -> str:
    """Return the version of the product, from its one place."""
    with (settings.BASE_DIR / "pyproject.toml").open("rb") as file:
        return str(tomllib.load(file)["project"]["version"])


@require_safe
def version(request: HttpRequest) -> JsonResponse:
    """Say which version runs and which API it serves."""
    return _no_store({"name": "clusterweb", "version": version_text(), "api": "v1"})
