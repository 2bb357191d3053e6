"""A world that the ``clusterweb`` command reaches over a port."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer

from scheduler.services.accounts.tokens import token_create
from tests.integration.api.conftest import World, world_make

SPEC = "apiVersion: v1\nname: train\nqueue: vision\ncommand: [python, train.py]\n"


@pytest.fixture
def shop(transactional_db: None, live_server: LiveServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world behind a port, and an empty home."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("CLUSTERWEB_URL", live_server.url)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.yaml").write_text(SPEC)
    (tmp_path / "train.py").write_text("print('hello')\n")
    world = world_make()
    sign_in(world, "member", monkeypatch)
    return world


def sign_in(world: World, role: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """Act as the user of a role from now on; return the token."""
    at = datetime.now(UTC)
    scopes = ["admin" if role == "admin" else "jobs:write"]
    _, text = token_create(actor=world.users[role], name="command", scopes=scopes, expires_at=None, at=at)
    monkeypatch.setenv("CLUSTERWEB_TOKEN", text)
    return text
