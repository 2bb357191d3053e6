"""One running product for all end-to-end tests of a session."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.stack import Stack


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """The product with the demo's users and servers and no jobs; fails when it leaves a process behind."""
    product = Stack(Path(tmp_path_factory.mktemp("stack")) / "var")
    try:
        product.start()
        yield product
        product.interrupt()
        left = [" ".join(process.cmdline()) for process in product.processes()]
        assert not left, left
    finally:
        product.destroy()
