"""Creates broker users: one for each server, and one each for web, scheduler and simulations.

A Celery message can make its receiver publish tasks with the receiver's rights, so an agent must not be able to write
to a queue that a more privileged worker reads: a server's user reaches its own queue and list of reports alone. Needs a
broker that keeps its users in a file (``aclfile``).
"""

import secrets
from collections.abc import Mapping, Sequence, Set
from typing import Any
from urllib.parse import urlsplit

import redis

_SETINFO = "+client|setinfo"
CONNECT = ("+auth", "+hello", "+select", "+ping", _SETINFO, "+client|setname")
# What a Celery worker without remote control, events and acknowledgements needs, and no more: that of a server writes
# its bindings and its reports alone, which the scheduler looks at, so that it cannot fill the broker.
COMMANDS = (*CONNECT, "+multi", "+exec", "+discard", "+brpop", "+rpop", "+llen", "+smembers")
OWN_COMMANDS = (*COMMANDS, "+sadd", "+set")

_SERVER = "server."  # begins the names of servers' users

# Pages hear of changes on these channels.
_FRAMES = ("resetchannels", "&asgi__group__*", "+publish")
# Names of changed things for the engine, and the wish for an early round.
_CHANGES = ("(%W~scheduler.touched +lpush +ltrim)", "(%W~scheduler.wake +set +del)", "(%W~scheduler +lpush)")


def _worker_keys(queue: str) -> tuple[str, ...]:
    """Return the keys of a Celery worker of a queue; kombu has lists for priorities, whose names go on with \x06."""
    return (f"~{queue}", f"~{queue}\x06*", f"~_kombu.binding.{queue}", f"~_kombu.binding_permanent.{queue}")


# The rules of our own processes; beat has the user of the scheduler.
PROCESSES: Mapping[str, tuple[str, ...]] = {
    "web": (
        *("-@all", *CONNECT, *_FRAMES, "&asgispecific.*", "+subscribe", "+unsubscribe", *_CHANGES),
        # Limits of requests, sign-ins and connections.
        "(~web:* +get +mget +set +incrby +exists +expire +pexpire +persist +del)",
    ),
    "scheduler": (
        *("-@all", *OWN_COMMANDS, *_FRAMES, *_CHANGES, *_worker_keys("scheduler")),
        "(~scheduler.touched +brpop +rpop +ltrim)",
        # It measures what servers leave, where that lies, before it takes anything; see ``scheduler/broker.py``.
        "(~reports.* ~hb:* ~_kombu.binding* +eval +llen +memory|usage +type +ltrim +rpop +unlink)",
        "(%W~server.* +lpush +ltrim +unlink)",
        "+pubsub|channels",  # which pages are open
    ),
    "simulations": (*("-@all", *OWN_COMMANDS, *_FRAMES, *_worker_keys("simulations"), *_worker_keys("notices")),),
}


def processes_make(passwords: Mapping[str, str], *, redis_url: str) -> None:
    """Create or renew the users of our own processes.

    Args:
        passwords: By name of PROCESSES.
        redis_url: Broker as we reach it, with the right to make users.

    Raises:
        redis.RedisError: The broker does not answer, keeps no users in a file, or we may not make users there.
    """
    client: Any = redis.Redis.from_url(redis_url, socket_timeout=10, socket_connect_timeout=5)  # untyped commands
    try:
        for name, password in passwords.items():
            user_set(client, name, password, PROCESSES[name])
        client.execute_command("ACL SAVE")
    finally:
        client.close()


def user_set(client: Any, name: str, password: str, rules: Sequence[str]) -> None:
    """Create or renew one user. Raises redis.RedisError."""
    given = ("ACL SETUSER", name, "reset", "on", f">{password}")
    try:
        client.execute_command(*given, *rules)
    except redis.ResponseError:
        # Redis 7.0, that of Debian 12, refuses a rule with a command that it does not know; clients go on without it.
        client.execute_command(*given, *(rule for rule in rules if rule != _SETINFO))


def users_remove(*, but: Set[str], redis_url: str) -> list[str]:
    """Remove the users of all servers but these; return the ids of their servers. Raises redis.RedisError."""
    client: Any = redis.Redis.from_url(redis_url, socket_timeout=10, socket_connect_timeout=5)  # untyped commands
    try:
        ids = [name.removeprefix(_SERVER) for name in map(_text, client.acl_users()) if name.startswith(_SERVER)]
        gone = sorted(set(ids) - but)
        if gone:
            client.execute_command("ACL DELUSER", *(f"{_SERVER}{server_id}" for server_id in gone))
            client.unlink(*(f"reports.{server_id}" for server_id in gone))
            client.execute_command("ACL SAVE")
        return gone
    finally:
        client.close()


def _text(name: str | bytes) -> str:
    return name.decode() if isinstance(name, bytes) else name


def user_rules(server_id: str) -> tuple[str, ...]:
    """Return the rules of a server's user, as ``ACL SETUSER`` takes them and as the file of users has them."""
    queue = f"server.{server_id}"
    bindings = [f"_kombu.binding.{queue}", f"_kombu.binding_permanent.{queue}"]
    reads = (f"~{queue}*", *(f"~{key}" for key in bindings))
    writes = (*(f"(~{key} +sadd)" for key in bindings), f"(%W~reports.{server_id} +lpush)")
    return ("resetchannels", "-@all", *COMMANDS, *reads, *writes)


def user_make(server_id: str, *, redis_url: str, seen_at: str) -> str:
    """Create or renew the user of a server; return the broker's URL with its name and its new password.

    Args:
        redis_url: Broker as we reach it, with the right to make users.
        seen_at: Broker as the server reaches it; user and password in it are replaced.

    Returns:
        Empty when the broker keeps no users in a file: a user would be lost with its next start.

    Raises:
        redis.RedisError: The broker does not answer, or we may not make users there.
    """
    name, password = f"{_SERVER}{server_id}", secrets.token_urlsafe(32)
    client: Any = redis.Redis.from_url(redis_url, socket_timeout=10, socket_connect_timeout=5)  # untyped commands
    try:
        if not client.config_get("aclfile").get("aclfile"):
            return ""
        user_set(client, name, password, user_rules(server_id))
        client.execute_command("ACL SAVE")
    finally:
        client.close()
    parts = urlsplit(seen_at)
    return parts._replace(netloc=f"{name}:{password}@{parts.netloc.rpartition('@')[2]}").geturl()
