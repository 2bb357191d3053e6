"""Signs of life that a container's health check reads."""

import os
from pathlib import Path

from clusterweb.config.alive import FOLDER, alive, silent


def test_thread_is_alive_until_it_is_silent(tmp_path: Path) -> None:
    """What never spoke is silent, and so is what spoke long ago; another sign ends that."""
    alive(tmp_path, "engine")
    alive(tmp_path, "shadow")
    os.utime(tmp_path / FOLDER / "shadow", (1, 1))

    assert silent(tmp_path, ["engine", "shadow", "what-if"], for_s=60) == ["shadow", "what-if"]
    alive(tmp_path, "shadow")
    assert silent(tmp_path, ["engine", "shadow"], for_s=60) == []


def test_broken_disk_ends_no_thread(tmp_path: Path) -> None:
    """A sign that cannot be given is none."""
    (tmp_path / FOLDER).write_text("no folder")

    alive(tmp_path, "engine")

    assert silent(tmp_path, ["engine"], for_s=60) == ["engine"]
