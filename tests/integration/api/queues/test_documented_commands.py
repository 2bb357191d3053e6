"""The commands that docs/leads.md and docs/admins.md show, one by one as they stand there."""

import re
import shlex
from datetime import UTC, datetime

import pytest

from clusterweb.cli.main import main
from clusterweb.config.env import BASE_DIR
from scheduler.models import Queue, QuotaRequest, Server
from scheduler.models.server import ServerState
from tests.integration.api.conftest import World
from tests.integration.api.jobs.conftest import sign_in
from tests.support.rows.factories import server_make


def shown_in(document: str, verb: str) -> list[list[str]]:
    """Return the words of each line of a code block that begins with this verb of the command."""
    text = (BASE_DIR / "docs" / document).read_text()
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines() if line.startswith(f"clusterweb {verb}")]
    return [shlex.split(line, comments=True)[1:] for line in lines]


QUOTA = shown_in("leads.md", "quota")
ASKED_BY_MEMBERS = ("--ask", "change", "withdraw")


@pytest.fixture
def wide(shop: World) -> World:
    """A cluster as large as the document's example, with one open request for the quota of vision."""
    server_make(gpus=16)
    Queue.objects.filter(pk=shop.org.pk).update(quota_gpus=16)
    Queue.objects.filter(pk=shop.speech.pk).update(quota_gpus=8)
    return shop


@pytest.mark.parametrize("words", QUOTA, ids=" ".join)
def test_quota_is_asked_for_and_given_as_the_document_of_leads_shows(
    wide: World, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    """Members ask, change and withdraw; who may grant does the rest."""
    if not set(words) & set(ASKED_BY_MEMBERS):
        sign_in(wide, "admin", monkeypatch)
    if "--ask" in words:
        QuotaRequest.objects.all().delete()
    number = str(wide.quota_request.pk)

    assert main([number if word == "7" else word for word in words]) == 0
    if "--gpus" in words and "change" not in words:
        assert dict(Queue.objects.exclude(pk=wide.org.pk).values_list("name", "quota_gpus")) == {
            "vision": 12,
            "speech": 1,
        }


def test_documents_show_each_command() -> None:
    """A list that is empty would be no test."""
    assert len(QUOTA) >= 7
    assert [words[1] for words in shown_in("admins.md", "server")] == ["rename", "label", "drain", "undrain", "remove"]


def test_server_is_renamed_drained_and_removed_as_the_document_of_admins_shows(
    wide: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other on one server."""
    sign_in(wide, "admin", monkeypatch)
    server = server_make("gpu-01", last_report_at=datetime.now(UTC))
    for words in shown_in("admins.md", "server"):
        if words[1] == "remove":
            Server.objects.filter(pk=server.pk).update(state=ServerState.DRAINING)
        assert main(words) == 0, words
