"""One running product for all end-to-end tests of a session."""

import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.support.e2e.stack import RECORDS, Stack, wait_for


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show what the product said beside a test that failed: by the time that a person looks it is gone."""
    report = yield
    stack = getattr(item, "funcargs", {}).get("stack")
    if report.failed and isinstance(stack, Stack):
        report.sections.append(("what the product said", stack.tail()))
    return report


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
def tmp_path() -> Path:
    """A folder that jobs may write: those of the product under test are confined, as everywhere."""
    path = Path(tempfile.mkdtemp(dir=RECORDS.name))
    path.chmod(0o1777)
    return path


@pytest.fixture
def one_server(stack: Stack) -> Iterator[Stack]:
    """The product with two slots: its second server is drained; afterwards as it was."""
    admin = stack.client("admin")
    second = next(row["id"] for row in admin.get("/api/v1/servers")["results"] if row["name"] == "server-02")
    assert admin.call("POST", f"/api/v1/servers/{second}/drain", {"reason": "test"}).status == 200
    yield stack
    assert admin.call("POST", f"/api/v1/servers/{second}/undrain", {"reason": "test"}).status == 200


@pytest.fixture
def faulty(stack: Stack) -> Iterator[Stack]:
    """The product for a test that makes servers fail; afterwards an admin has looked at each of them.

    Otherwise three failures of different tests would drain a server by itself, and a later test find it so.
    """
    yield stack
    admin = stack.client("admin")

    def reporting() -> list[dict[str, str]] | None:
        servers: list[dict[str, str]] = admin.get("/api/v1/servers")["results"]
        return servers if all(server["state"] in ("up", "draining") for server in servers) else None

    for server in wait_for("every server reports", reporting):
        if server["state"] == "up":
            assert admin.call("POST", f"/api/v1/servers/{server['id']}/drain", {"reason": "test"}).status == 200
        assert admin.call("POST", f"/api/v1/servers/{server['id']}/undrain", {"reason": "test"}).status == 200
