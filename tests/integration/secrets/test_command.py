"""``clusterweb secret``: the value comes from a pipe or a terminal, never from the arguments."""

import getpass
import io
import sys
from datetime import UTC, datetime

import pytest
from pytest_django.live_server_helper import LiveServer

from clusterweb.cli.main import main
from scheduler.models import Secret
from scheduler.services.accounts.tokens import token_create
from scheduler.services.secrets.crypt import secret_decrypt
from tests.integration.api.conftest import World, world_make


@pytest.fixture
def lead(transactional_db: None, live_server: LiveServer, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world behind a port, and a token of the lead for the command."""
    world = world_make()
    scopes = ["jobs:write", "queues:admin"]
    _, text = token_create(actor=world.users["lead"], name="mine", scopes=scopes, expires_at=None, at=datetime.now(UTC))
    monkeypatch.setenv("CLUSTERWEB_URL", live_server.url)
    monkeypatch.setenv("CLUSTERWEB_TOKEN", text)
    return world


def test_value_is_read_from_a_pipe_listed_without_and_deleted(
    lead: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Of one's own and of a queue; the line break that a pipe ends with is not part of it."""
    monkeypatch.setattr(sys, "stdin", io.StringIO("piped-0123456789\n"))
    assert main(["secret", "set", "comet"]) == 0
    monkeypatch.setattr(sys, "stdin", io.StringIO("shared-0123456789"))
    assert main(["secret", "set", "comet", "--queue", "vision"]) == 0
    assert main(["secret", "list", "--queue", "vision"]) == 0
    said = capsys.readouterr()

    values = {(row.queue_id, secret_decrypt(row)) for row in Secret.objects.filter(name="comet")}
    assert values == {(None, "piped-0123456789"), (lead.vision.pk, "shared-0123456789")}
    assert "env: {VARIABLE: {secret: comet}}" in said.out
    assert "comet" in said.out.splitlines()[-2:][0] + said.out.splitlines()[-1]
    assert "0123456789" not in said.out + said.err
    assert main(["secret", "delete", "comet", "--queue", "vision"]) == 0
    assert main(["secret", "delete", "comet", "--queue", "vision"]) == 1
    assert [row.queue_id for row in Secret.objects.filter(name="comet")] == [None]


def test_terminal_is_asked_without_showing_what_is_typed(lead: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a password."""

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr(getpass, "getpass", lambda prompt: f"typed-{'comet' in prompt}-0123")
    assert main(["secret", "set", "comet"]) == 0

    assert secret_decrypt(Secret.objects.get(name="comet")) == "typed-True-0123"


def test_refusal_is_told_and_holds_no_value(
    lead: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Too short a value, a bad name, and no name at all."""
    long = "long-enough-value"
    for name, value, status in (("comet", "short", 1), ("-bad", long, 1), ("a/b", long, 2)):
        monkeypatch.setattr(sys, "stdin", io.StringIO(value))
        assert main(["secret", "set", "--", name]) == status
        assert value not in capsys.readouterr().err
    assert main(["secret", "set"]) == 2
