"""One running product for all end-to-end tests of a session."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.stack import Stack


@pytest.fixture(scope="session")
def stack() -> Iterator[Stack]:
    """The product with the demo's users and servers and no jobs; fails when it leaves a process behind."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-stack-") as directory:
        product = Stack(Path(directory) / "var")
        try:
            product.start()
            yield product
            product.interrupt()
            left = [" ".join(process.cmdline()) for process in product.processes()]
            assert not left, left
        finally:
            product.destroy()


@pytest.fixture
def one_server(stack: Stack) -> Iterator[Stack]:
    """The product with two slots: its second server is drained; afterwards as it was."""
    admin = stack.client("admin")
    second = next(row["id"] for row in admin.get("/api/v1/servers")["results"] if row["name"] == "server-02")
    assert admin.call("POST", f"/api/v1/servers/{second}/drain", {"reason": "test"}).status == 200
    yield stack
    assert admin.call("POST", f"/api/v1/servers/{second}/undrain").status == 200
