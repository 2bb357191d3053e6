"""Tests of the agent start processes."""

import pytest


@pytest.fixture(autouse=True)
def _starts_processes(processes: None) -> None:
    """Say so."""
