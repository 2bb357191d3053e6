"""Fixtures of the tests of what-if: an admin, and workers whose processes end with the test."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.contrib.auth.models import User

from tests.support.rows.factories import user_make
from tests.support.rows.whatif_world import Worlds


@pytest.fixture
def admin() -> User:
    """An admin."""
    return user_make("ada", admin=True)


@pytest.fixture
def worlds(processes: None, settings: Any, tmp_path: Path) -> Iterator[Worlds]:
    """Workers of this test; none of their processes outlives it."""
    settings.VAR_DIR = tmp_path
    made = Worlds()
    yield made
    made.stop()
