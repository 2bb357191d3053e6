"""The demo on machines with and without GPUs: two servers of one machine never offer the same GPU."""

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command

from scheduler.management import demo
from scheduler.models import ApiToken, Job, Queue, Server
from tests.support.agents.driver import FakeDriver

pytestmark = pytest.mark.django_db


def load(monkeypatch: pytest.MonkeyPatch, settings: Any, var_dir: Path, *, num_gpus: int) -> list[dict[str, Any]]:
    """Load the demo on a machine with so many GPUs; return what its agents are configured with, by name."""
    settings.VAR_DIR = var_dir
    monkeypatch.setattr(demo, "pynvml", FakeDriver(num_gpus=num_gpus))
    call_command("load_demo", url="http://127.0.0.1:8000")
    return [json.loads(path.read_text()) for path in sorted((var_dir / "agents").glob("server-*.json"))]


def test_tokens_of_the_demo_do_what_the_documents_of_their_owner_show(
    monkeypatch: pytest.MonkeyPatch, settings: Any, tmp_path: Path
) -> None:
    """docs/leads.md asks for a forecast and changes a quota by REST."""
    load(monkeypatch, settings, tmp_path, num_gpus=0)
    scopes = dict(ApiToken.objects.values_list("user__username", "scopes"))

    assert {"whatif", "queues:admin"} <= set(scopes["lead"])
    assert "admin" not in scopes["lead"]
    assert set(scopes["member"]) == set(scopes["outsider"]) == {"jobs:read", "jobs:write"}


@pytest.mark.parametrize(
    ("num_gpus", "offered", "quota", "widest"),
    [
        (0, [None, None], 2, 2),
        (1, [["GPU-0"]], 1, 1),
        (2, [["GPU-0"], ["GPU-1"]], 1, 1),
        (5, [["GPU-0", "GPU-2", "GPU-4"], ["GPU-1", "GPU-3"]], 2, 2),
    ],
)
def test_each_gpu_is_offered_by_one_server(
    monkeypatch: pytest.MonkeyPatch,
    settings: Any,
    tmp_path: Path,
    num_gpus: int,
    offered: list[list[str] | None],
    quota: int,
    widest: int,
) -> None:
    """Quotas share out what there is, and every job fits on some server."""
    configured = load(monkeypatch, settings, tmp_path, num_gpus=num_gpus)

    assert [config["gpu_uuids"] for config in configured] == offered
    assert Server.objects.count() == len(offered)
    assert set(Queue.objects.exclude(parent=None).values_list("quota_gpus", flat=True)) == {quota}
    assert max(Job.objects.values_list("num_gpus", flat=True)) == widest
