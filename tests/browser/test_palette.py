"""The command palette: opened, moved through and left by keys alone, read by axe, and a plain page without scripts."""

from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # has no types
from playwright.sync_api import Browser, BrowserContext, expect

from tests.browser.site import Site, site_served
from tests.browser.test_accessibility import WIDE, faults


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster with something of everything."""
    with site_served("full", tmp_path_factory.mktemp("palette")) as served:
        yield served


@pytest.fixture
def window(browser: Browser, site: Site) -> Iterator[BrowserContext]:
    """An admin's window."""
    context = site.context(browser, "overview", viewport=WIDE, reduced_motion="reduce")
    yield context
    context.close()


def test_keys_alone_find_and_open_a_job(window: BrowserContext, site: Site) -> None:
    """Ctrl K, some letters, an arrow, Enter; Esc first clears, then closes, and the focus returns."""
    page = window.new_page()
    page.goto(site.url)
    theme = page.locator("[data-theme-form] button").first
    theme.focus()
    page.keyboard.press("Control+k")
    field, options = page.get_by_role("combobox"), page.get_by_role("option")
    expect(field).to_be_focused()
    page.keyboard.type("#resnet")
    expect(options.first).to_contain_text("resnet")
    expect(options.first).to_have_attribute("aria-selected", "true")
    page.keyboard.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    page.evaluate(Axe().axe_script)
    assert not faults(page)

    page.keyboard.press("Escape")
    expect(field).to_have_value("")
    page.keyboard.press("Escape")
    expect(page.locator("#palette")).to_be_hidden()
    expect(theme).to_be_focused()

    page.keyboard.press("/")
    page.keyboard.type("canary-job")
    expect(options.first).to_contain_text("canary-job")
    page.keyboard.press("Enter")
    page.wait_for_url("**/jobs/J-*")


def test_when_search_does_not_answer_pages_still_open(window: BrowserContext, site: Site) -> None:
    """What was there is narrowed in the browser."""
    page = window.new_page()
    page.goto(site.url)
    page.keyboard.press("Control+k")
    expect(page.get_by_role("option").first).to_be_visible()
    page.route("**/search?*", lambda route: route.abort())
    page.keyboard.type("rounds")

    expect(page.locator("#palette-count")).to_contain_text("Pages and actions still work")
    expect(page.get_by_role("option").first).to_contain_text("Rounds")


def test_on_a_phone_it_fills_the_screen_and_can_be_closed(window: BrowserContext, site: Site) -> None:
    """Opened from the top bar, closed by its button."""
    page = window.new_page()
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(site.url)
    page.locator(".mobilebar [data-palette]").click()
    expect(page.get_by_role("combobox")).to_be_focused()
    page.locator("#palette [data-dialog-close]").click()

    expect(page.locator("#palette")).to_be_hidden()


def test_without_scripts_the_field_leads_to_a_page(browser: Browser, site: Site) -> None:
    """The same answer as links."""
    context = site.context(browser, "overview", java_script_enabled=False, viewport=WIDE)
    page = context.new_page()
    page.goto(site.url)
    page.locator(".topbar input[name=q]").fill("canary-job")
    page.locator(".topbar input[name=q]").press("Enter")

    expect(page.locator("#hits a").first).to_contain_text("canary-job")
    context.close()
