"""A server is registered by one command, and its key is written once, for its owner's eyes."""

import json
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from scheduler.models import Server

pytestmark = pytest.mark.django_db


def test_configuration_is_private_and_complete(tmp_path: Path) -> None:
    """The file holds what an agent needs, and nobody else can read it."""
    path = tmp_path / "gpu-01.json"
    call_command(
        "add_server",
        "gpu-01",
        config=path,
        cpu_slots=2,
        cpu_ids="0,1",
        gpu_uuids="GPU-2, GPU-3",
        memory_gib=4.0,
        verbosity=0,
    )
    config = json.loads(path.read_text())

    server = Server.objects.get(name="gpu-01")
    assert path.stat().st_mode & 0o777 == 0o600
    assert (config["server_id"], config["key_hex"]) == (server.pk, server.key_hex)
    assert (config["cpu_slots"], config["cpu_ids"], config["memory_bytes"]) == (2, [0, 1], 4 * 2**30)
    assert config["gpu_uuids"] == ["GPU-2", "GPU-3"]


def test_existing_key_is_never_overwritten(tmp_path: Path) -> None:
    """A second call with the same file changes nothing and says why."""
    path = tmp_path / "gpu-01.json"
    path.write_text("kept")

    with pytest.raises(CommandError, match="exists already"):
        call_command("add_server", "gpu-01", config=path)
    assert path.read_text() == "kept"
    assert not Server.objects.exists()


def test_name_is_taken_once(tmp_path: Path) -> None:
    """Two servers of one name could not be told apart."""
    call_command("add_server", "gpu-01", config=tmp_path / "a.json", verbosity=0)

    with pytest.raises(CommandError, match="gpu-01"):
        call_command("add_server", "gpu-01", config=tmp_path / "b.json")
    assert not (tmp_path / "b.json").exists()
