"""The small world that the tests of the live engine play in."""

from collections.abc import Iterator

import pytest

from scheduler.notify import use_bell
from tests.support.live.world import World


@pytest.fixture
def world(db: None) -> Iterator[World]:
    """A cluster without servers, with one queue ``vision``."""
    made = World()
    made.queue("vision")
    yield made
    use_bell(None)
