"""A server that is added gets a user of its own at the broker, which reaches nothing of anybody else."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.management import call_command

from scheduler.models import Server
from scheduler.services.cluster.servers import server_remove
from tests.integration.agents.test_broker import Broker
from tests.support.rows.factories import AT, user_make

pytestmark = pytest.mark.django_db


@pytest.fixture
def broker(processes: None, tmp_path: Path, settings: Any) -> Iterator[Broker]:
    made = Broker(tmp_path)
    made.start()
    settings.REDIS_URL = f"unix://scheduler:schedulerpassword@{made.socket}"
    yield made
    made.client.close()
    made.kill()


def added(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[str, str]:
    """Return the broker's URL in the file of a new server, and what the command said."""
    path = tmp_path / f"{name}.json"
    call_command("add_server", name, config=path)
    return json.loads(path.read_text())["redis_url"], capsys.readouterr().out


def test_new_server_reaches_its_own_queue_and_reports_alone(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever takes a server over cannot read or write what is of others, nor make users."""
    url, said = added("gpu-01", tmp_path, capsys)
    other_url, _ = added("gpu-02", tmp_path, capsys)
    own, other = Server.objects.get(name="gpu-01").pk, Server.objects.get(name="gpu-02").pk
    broker.client.lpush(f"server.{own}", "desired")
    client: Any = redis.Redis.from_url(url)  # its commands have no types

    assert "a user of its own" in said
    assert url != other_url
    assert client.rpop(f"server.{own}") == b"desired"
    assert client.lpush(f"reports.{own}", "report") == 1
    for command in (
        ["LPUSH", "scheduler", "task"],
        ["LPUSH", f"server.{other}", "desired"],
        ["RPOP", f"server.{other}"],
        ["LPUSH", f"reports.{other}", "report"],
        ["RPOP", f"reports.{own}"],
        ["KEYS", "*"],
        ["PUBLISH", "any", "thing"],
        ["ACL", "LIST"],
        ["CONFIG", "GET", "*"],
        ["FLUSHALL"],
    ):
        with pytest.raises(redis.exceptions.NoPermissionError):
            client.execute_command(*command)
    client.close()


def test_users_of_servers_outlive_a_restart_of_the_broker(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are kept in its file."""
    url, _ = added("gpu-01", tmp_path, capsys)
    broker.kill()
    broker.start()
    client: Any = redis.Redis.from_url(url)  # its commands have no types

    assert client.ping()
    client.close()


def test_user_of_a_removed_server_goes_with_it(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its key is void, but nothing would take what it leaves at the broker, until that is full."""
    removed_url, _ = added("gpu-01", tmp_path, capsys)
    kept_url, _ = added("gpu-02", tmp_path, capsys)
    server = Server.objects.get(name="gpu-01")
    with redis.Redis.from_url(removed_url) as client:
        client.lpush(f"reports.{server.pk}", "report")
    server_remove(actor=user_make("admin", admin=True), server=server, reason="Sold.", at=AT)
    monkeypatch.setattr("scheduler.management.commands.broker_users.PROCESSES", {})
    call_command("broker_users")

    assert server.pk in capsys.readouterr().out
    with redis.Redis.from_url(removed_url) as client, pytest.raises(redis.exceptions.AuthenticationError):
        client.ping()
    with redis.Redis.from_url(kept_url) as client:
        assert client.ping()
    assert not broker.client.exists(f"reports.{server.pk}")


def test_broker_without_a_file_of_users_is_told_of(
    tmp_path: Path, settings: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The server still gets its file; the command says what it may do."""
    settings.REDIS_URL = f"unix:///{tmp_path}/nobody.sock"

    url, said = added("gpu-01", tmp_path, capsys)

    assert url == settings.REDIS_URL
    assert "has our rights" in said
