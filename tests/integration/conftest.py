"""What integration tests share."""

from collections.abc import Iterator

import pytest

from tests.notices import Receiver


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    """Return an HTTP server on this machine that takes webhooks."""
    made = Receiver()
    yield made
    made.close()
