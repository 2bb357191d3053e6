"""Creates a broker user for each server, which reaches only the server's own queue and list of reports.

A Celery message can make its receiver publish tasks with the receiver's rights, so an agent must not be able to write
to a queue that a more privileged worker reads. Needs a broker that keeps its users in a file (``aclfile``).
"""

import secrets
from typing import Any
from urllib.parse import urlsplit

import redis

# What a Celery worker without remote control, events and acknowledgements needs, and no more: it writes its bindings
# and its reports alone, which the scheduler looks at, so that it cannot fill the broker.
COMMANDS = (
    "+auth",
    "+hello",
    "+select",
    "+ping",
    "+client|setinfo",
    "+client|setname",
    "+multi",
    "+exec",
    "+discard",
    "+brpop",
    "+rpop",
    "+llen",
    "+smembers",
)


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
    name, password = f"server.{server_id}", secrets.token_urlsafe(32)
    client: Any = redis.Redis.from_url(redis_url, socket_timeout=10, socket_connect_timeout=5)  # untyped commands
    try:
        if not client.config_get("aclfile").get("aclfile"):
            return ""
        client.execute_command("ACL SETUSER", name, "reset", "on", f">{password}", *user_rules(server_id))
        client.execute_command("ACL SAVE")
    finally:
        client.close()
    parts = urlsplit(seen_at)
    return parts._replace(netloc=f"{name}:{password}@{parts.netloc.rpartition('@')[2]}").geturl()
