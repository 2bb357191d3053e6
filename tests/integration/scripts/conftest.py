"""Scripts as users bring them, under two real agents of one shared directory."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.agents.server import AgentServer


@pytest.fixture
def servers(processes: None, tmp_path: Path) -> Iterator[list[AgentServer]]:
    """Two agents with one shared directory; nothing of them is left behind."""
    made = [AgentServer(tmp_path / name) for name in ("a", "b")]
    made[1].config = replace(made[1].config, shared_dir=made[0].config.shared_dir)
    for one in made:
        one.start()
    yield made
    for one in made:
        one.end()
