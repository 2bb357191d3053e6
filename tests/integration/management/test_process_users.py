"""Web, scheduler and simulations have a broker user each: all that they need, and nothing that others use."""

import asyncio
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import redis
from channels.layers import channel_layers, get_channel_layer
from django.core.management import CommandError, call_command

from clusterweb.config.alive import silent
from clusterweb.config.env import BASE_DIR
from scheduler.broker import ChannelFrames, RedisBell, RedisTransport, frame_message
from tests.integration.agents.test_broker import broker_binary
from tests.support.e2e.stack import wait_for

pytestmark = [pytest.mark.usefixtures("processes"), pytest.mark.django_db]
SERVER = "s00000000001"
PASSWORDS = {name: f"password-of-{name}-123" for name in ("web", "scheduler", "simulations")}
CELERY = (sys.executable, "-m", "celery", "-A", "clusterweb")
ALONE = ("-P", "threads", "-c", "1", "--without-gossip", "--without-mingle", "--without-heartbeat")
# Keys and channels of others, and what no process of ours needs.
REFUSED = {
    "web": [
        ["RPOP", "scheduler"],
        ["LPUSH", f"server.{SERVER}", "desired"],
        ["RPOP", f"reports.{SERVER}"],
        ["LPUSH", "simulations", "task"],
        ["EVAL", "return 1", "0"],
    ],
    "scheduler": [
        ["LPUSH", "simulations", "task"],
        ["RPOP", f"server.{SERVER}"],
        ["LPUSH", f"reports.{SERVER}", "report"],
        ["SUBSCRIBE", "asgi__group__jobs"],
        ["GET", "web:1:sign-in"],
        ["EVAL", "return redis.call('RPOP', KEYS[1])", "1", f"server.{SERVER}"],
        ["EVAL", "return redis.call('GET', KEYS[1])", "1", "web:1:sign-in"],
    ],
    "simulations": [
        ["EVAL", "return 1", "0"],
        ["LPUSH", "scheduler", "task"],
        ["SET", "scheduler.wake", "1"],
        ["LPUSH", "scheduler.touched", "jobs"],
        ["LPUSH", f"server.{SERVER}", "desired"],
        ["RPOP", f"reports.{SERVER}"],
        ["SUBSCRIBE", "asgi__group__jobs"],
        ["GET", "web:1:sign-in"],
    ],
}
OF_NOBODY = [
    ["PUBLISH", "other", "thing"],
    ["KEYS", "*"],
    ["ACL", "LIST"],
    ["CONFIG", "GET", "*"],
    ["FLUSHALL"],
    ["MONITOR"],
]


class Broker:
    """A broker with an admin, and with the users that the command makes."""

    def __init__(self, path: Path) -> None:
        self.socket = path / "b.sock"
        (path / "users").write_text("user default on >adminpassword ~* &* +@all\n")
        self.process = subprocess.Popen(
            [broker_binary(), "--port", "0", "--unixsocket", str(self.socket), "--aclfile", str(path / "users")],
            cwd=path,
            stdout=subprocess.DEVNULL,
        )
        self.admin: Any = self.client("")  # untyped commands
        wait_for("the broker", self._answers)

    def url(self, name: str) -> str:
        """Return the address for one of our processes, or for the admin."""
        return f"unix://{name}:{PASSWORDS.get(name, 'adminpassword')}@{self.socket}"

    def client(self, name: str) -> redis.Redis:
        """Return a client with the rights of a process."""
        return redis.Redis.from_url(self.url(name))

    def _answers(self) -> bool:
        try:
            return bool(self.admin.ping())
        except redis.RedisError:
            return False


@pytest.fixture
def broker(tmp_path: Path, settings: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Broker]:
    """A broker with a user for each process."""
    made = Broker(tmp_path)
    settings.REDIS_URL = made.url("")
    for name, password in PASSWORDS.items():
        monkeypatch.setenv(f"REDIS_{name.upper()}_PASSWORD", password)
    call_command("broker_users", verbosity=0)
    yield made
    made.admin.close()
    made.process.kill()
    made.process.wait()


@pytest.fixture
def became(broker: Broker, settings: Any) -> Iterator[Any]:
    """Return what makes this process act with the user of another."""

    def become(name: str) -> None:
        settings.REDIS_URL = broker.url(name)
        host = {"address": broker.url(name), "socket_timeout": None}
        layer = {"BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer", "CONFIG": {"hosts": [host]}}
        settings.CHANNEL_LAYERS = {"default": layer}
        channel_layers.backends.clear()

    yield become
    channel_layers.backends.clear()


@pytest.mark.parametrize("name", PASSWORDS)
def test_user_reaches_nothing_of_others(name: str, broker: Broker) -> None:
    """Whoever takes one process over cannot act as another, nor make users."""
    client: Any = broker.client(name)  # untyped commands

    for command in REFUSED[name] + OF_NOBODY:
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*command)
    client.close()


def test_messages_go_their_way_with_these_users(broker: Broker, became: Any) -> None:
    """Wishes and changes from web, desired states and reports at the scheduler, frames from both workers to web."""
    became("web")
    RedisBell().request_round("submit")
    RedisBell().touch(["jobs"])
    broker.admin.lpush(f"reports.{SERVER}", "report")
    became("scheduler")
    transport = RedisTransport()
    RedisBell().round_begins()
    arrived = transport.receive_reports([SERVER], timeout_s=1)
    transport.send_desired({SERVER: "sealed"})

    assert arrived == [(SERVER, "report")]
    assert transport.take_touched() == ["jobs"]
    assert (broker.admin.llen("scheduler"), broker.admin.llen(f"server.{SERVER}")) == (1, 1)
    for sender in ("scheduler", "simulations"):
        assert asyncio.run(_frame_of(sender, became)) == frame_message("cluster", "told", {"by": sender})
    assert broker.admin.acl_log() == []


async def _frame_of(sender: str, became: Any) -> dict[str, Any]:
    became("web")
    layer = get_channel_layer()
    assert layer is not None
    channel = await layer.new_channel()
    await layer.group_add("jobs", channel)
    became(sender)
    await asyncio.to_thread(ChannelFrames().send, "jobs", "told", {"by": sender})
    async with asyncio.timeout(60):
        found: dict[str, Any] = await layer.receive(channel)
    await layer.group_discard("jobs", channel)
    return found


def test_workers_and_beat_work_with_these_users(broker: Broker, tmp_path: Path) -> None:
    """A round is asked for by beat and made; each thread says that it is alive; nothing was refused."""
    environment = {**os.environ, "VAR_DIR": str(tmp_path), "ROUND_S": "1", "REDIS_URL": broker.url("scheduler")}
    subprocess.run([sys.executable, "manage.py", "migrate", "-v0"], cwd=BASE_DIR, env=environment, check=True)
    workers = {"scheduler": "scheduler", "simulations": "simulations,notices"}
    processes = [subprocess.Popen([*CELERY, "beat", "--pidfile="], cwd=BASE_DIR, env=environment)]
    for name, queues in workers.items():
        own = {**environment, "REDIS_URL": broker.url(name)}
        command = [*CELERY, "worker", "-n", f"{name}@here", "-Q", queues, *ALONE]
        processes.append(subprocess.Popen(command, cwd=BASE_DIR, env=own))
    names = ("beat", "engine", "engine-frames", "what-if", "estimates", "shadow", "notices")
    try:
        wait_for("all are alive", lambda: not silent(tmp_path, names, for_s=60), within_s=60)
        wait_for("a round is made", lambda: _rounds(tmp_path) > 1, within_s=60)
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            process.wait(timeout=300)

    assert broker.admin.acl_log() == []


def _rounds(var_dir: Path) -> int:
    with closing(sqlite3.connect(var_dir / "clusterweb.sqlite3")) as database:
        found = database.execute("SELECT round_number FROM scheduler_cluster").fetchone()
    return int(found[0]) if found else 0


def test_short_password_is_refused(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """By the name of its variable; nothing is made then."""
    monkeypatch.setenv("REDIS_WEB_PASSWORD", "short")

    with pytest.raises(CommandError, match="REDIS_WEB_PASSWORD must have at least 16 characters"):
        call_command("broker_users")
