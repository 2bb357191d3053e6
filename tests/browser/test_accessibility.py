"""Every page for every reader: no serious fault by axe in either theme, no sideways scroll, readable without scripts.

Pages are found by walking the URL configuration; each is looked at with data and, where it can be, before there is any.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # has no types
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.site import Site, pages_to_look_at, site_served

BAD = {"serious", "critical"}
WIDE = {"width": 1440, "height": 900}
NARROW = {"width": 390, "height": 844}
CHARTS_FOLLOW_MS = 2000
NARROWEST = {"width": 320, "height": 640}
PLACES = [(kind, name) for kind in ("full", "empty") for name in pages_to_look_at(empty=kind == "empty")]


@pytest.fixture(scope="module")
def sites(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], Site]]:
    """Clusters, full or empty, each served once."""
    with ExitStack() as stack:
        yield cache(lambda kind: stack.enter_context(site_served(kind, tmp_path_factory.mktemp("site"))))


@pytest.fixture
def site(sites: Callable[[str], Site], kind: str) -> Site:
    """The cluster of this test."""
    return sites(kind)


@pytest.fixture
def window(browser: Browser, site: Site, name: str) -> Iterator[BrowserContext]:
    """A signed-in window."""
    context = site.context(browser, name, viewport=WIDE, color_scheme="light", reduced_motion="reduce")
    yield context
    context.close()


def faults(page: Page) -> list[str]:
    """Return the serious faults that axe finds, each with where it is; axe is on the page."""
    found = page.evaluate("axe.run({resultTypes: ['violations']})")["violations"]
    return [
        f"{fault['id']}: {fault['help']}: {' '.join(node['target'])} {node['html'][:160]} {node.get('failureSummary')}"
        for fault in found
        if fault["impact"] in BAD
        for node in fault["nodes"][:5]
    ]


def overflow(page: Page, size: Any) -> list[str]:
    """Return what makes a page scroll sideways in a window of this size, once its charts have followed."""
    page.set_viewport_size(size)
    for _ in range(CHARTS_FOLLOW_MS // 100):
        if page.evaluate("document.documentElement.scrollWidth <= innerWidth"):
            return []
        page.wait_for_timeout(100)
    found: list[str] = page.evaluate(
        """() => [...document.querySelectorAll('body *')]
          .map(e => [e, Math.round(e.getBoundingClientRect().right)]).filter(([, right]) => right > innerWidth)
          .map(([e, right]) => `${e.tagName} ${e.getAttribute('class')} ends at ${right}`)"""
    )
    return [f"{size['width']} wide: {line}" for line in found[:12]]


@pytest.mark.parametrize(("kind", "name"), PLACES)
def test_page_has_no_serious_fault_and_fits(window: BrowserContext, site: Site, name: str) -> None:
    """Axe finds nothing serious or critical, light and wide, dark and narrow; nothing scrolls the page sideways."""
    page = window.new_page()
    answer = page.goto(f"{site.url}{site.paths[name]}")
    page.evaluate(Axe().axe_script)
    light = faults(page)
    page.emulate_media(color_scheme="dark")
    sideways = overflow(page, NARROW)
    dark = faults(page)
    sideways += overflow(page, NARROWEST)

    assert answer is not None
    assert answer.status == 200, site.log.read_text()[-3000:]
    assert not [*light, *dark], "\n".join(["light and wide:", *light, "dark and narrow:", *dark])
    assert not sideways, sideways


@pytest.mark.parametrize(("kind", "name"), [("full", "cluster")])
@pytest.mark.parametrize("size", [WIDE, NARROW], ids=["wide", "narrow"])
def test_what_stands_on_the_map_keeps_its_distance(window: BrowserContext, site: Site, name: str, size: Any) -> None:
    """The word below the pills of a server touches neither them nor the border, and its name stays on one line."""
    page = window.new_page()
    page.set_viewport_size(size)
    page.goto(f"{site.url}{site.paths[name]}")
    found = page.evaluate(
        """() => [...document.querySelectorAll('#map .server')].map(server => {
          const box = part => server.querySelector(part).getBoundingClientRect();
          const [pills, word, name] = ['.cells', '.slot-word', '.head > span'].map(box);
          const whole = server.getBoundingClientRect();
          return [word.top - pills.bottom, whole.bottom - word.bottom, 20 - name.height];
        })"""
    )

    assert found
    assert min(min(gaps) for gaps in found) >= 4, found


@pytest.mark.parametrize(("kind", "name"), [("full", "scene usage"), ("full", "what-if-new"), ("full", "what-if")])
def test_detail_is_folded_on_a_phone_and_shown_where_there_is_room(browser: Browser, site: Site, name: str) -> None:
    """Without scripts: closed at 390 and opened by its line; at 1440 all of it is there, with nothing to open."""
    narrow, wide = (
        site.context(browser, name, java_script_enabled=False, viewport=size).new_page() for size in (NARROW, WIDE)
    )
    for page in (narrow, wide):
        page.goto(f"{site.url}{site.paths[name]}")
    fold, inside = ("main details.fold:not([open])", "table, .form-row, .grid, .form-actions")
    closed = narrow.locator(fold).first
    before = closed.locator(inside).first.is_visible()
    closed.locator("summary").click()
    after = narrow.locator("main details.fold").first.locator(inside).first.is_visible()
    shown = [each.locator(inside).first.is_visible() for each in wide.locator(fold).all()]
    lines = [each.is_visible() for each in wide.locator("main details.fold > summary").all()]
    for page in (narrow, wide):
        page.context.close()

    assert (before, after) == (False, True)
    assert shown
    assert all(shown)
    assert not any(lines)


@pytest.mark.parametrize(("kind", "name"), PLACES)
def test_page_reads_without_scripts(browser: Browser, site: Site, name: str) -> None:
    """Its one heading, its text, tables and forms are there as the server sent them."""
    context = site.context(browser, name, java_script_enabled=False, viewport=WIDE)
    page = context.new_page()
    page.goto(f"{site.url}{site.paths[name]}")
    hidden = [
        tag
        for tag in ("table", "form")
        for item in page.locator(f"main {tag}:not(dialog {tag}):not(details {tag}):not([popover] {tag})").all()
        if not item.is_visible()
    ]
    headings, text = page.locator("h1").count(), page.inner_text("main")
    context.close()

    assert headings == 1
    assert len(text) > 40
    assert not hidden, hidden
