"""A running demo and a headless Chromium. Without Chromium the tests are skipped, and say so."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.support.e2e.stack import ROOT, Stack, wait_for

CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), ""
)
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def demo() -> Iterator[Stack]:
    """The product as ``make run`` starts it the first time, with its eight jobs."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-demo-") as directory:
        product = Stack(Path(directory) / "var", DEMO_JOBS="1", ROUND_S="5", LEASE_TTL_S="20")
        try:
            product.start()
            wait_for("a job trains", lambda: product.client("admin").get("/api/v1/jobs?state=running")["results"])
            yield product
        finally:
            product.destroy()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Headless Chromium from the system."""
    if not CHROMIUM:
        pytest.skip("NO BROWSER TEST RAN: Chromium is not installed (make test-all installs it as root on Debian)")
    os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "1")
    expect.set_options(timeout=60_000)  # demo jobs train on the same cores
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield launched
        launched.close()


def picture(page: Page, name: str, *, whole: bool = False) -> None:
    """Keep a picture of the page in ``docs/pictures`` where pictures are wanted (``PICTURES=1``)."""
    if os.environ.get("PICTURES"):
        page.mouse.move(0, 0)
        page.wait_for_timeout(1_000)
        page.screenshot(path=str(ROOT / "docs" / "pictures" / f"{name}.png"), full_page=whole)


def sign_in(page: Page, demo: Stack, user: str) -> None:
    """Sign in by the form."""
    page.goto(f"{demo.url}/sign-in")
    page.fill("input[name=username]", user)
    page.fill("input[name=password]", demo.password(user))
    page.click("form button[type=submit]")
    page.wait_for_url(f"{demo.url}/")


class Watched:
    """A signed-in page that remembers every error of the console and every failed request."""

    def __init__(self, context: BrowserContext, demo: Stack, user: str) -> None:
        self.url = demo.url
        context.set_default_timeout(120_000)  # it only ends what hangs, on the slowest machine
        self.page = context.new_page()
        self.errors: list[str] = []
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on(
            "console", lambda m: self.errors.append(f"{m.text} {m.location.get('url')}") if m.type == "error" else None
        )
        sign_in(self.page, demo, user)

    def open(self, path: str) -> Page:
        """Go to a path of the product."""
        self.page.goto(f"{self.url}{path}")
        return self.page


@pytest.fixture
def member(browser: Browser, demo: Stack) -> Iterator[Watched]:
    """A practitioner's browser at 1440 wide; the test fails on any error in the console."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    watched = Watched(context, demo, "member")
    yield watched
    context.close()
    assert not watched.errors, watched.errors


@pytest.fixture
def admin(browser: Browser, demo: Stack) -> Iterator[Watched]:
    """An admin's browser."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    watched = Watched(context, demo, "admin")
    yield watched
    context.close()
    assert not watched.errors, watched.errors
