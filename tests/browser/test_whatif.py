"""An admin asks what would happen, watches, and applies the winner."""

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Watched
from tests.e2e.stack import Stack, wait_for

pytestmark = pytest.mark.browser


def test_admin_compares_policies_and_applies_one(admin: Watched, demo: Stack) -> None:
    """From the form over the progress to the result, and from there to the settings of the cluster."""
    page = admin.open("/whatif/new")
    page.fill("[name=name]", "Which policy for winter?")
    page.fill("[name=seeds]", "1, 2")
    page.check("input[name=kind][value=generator]")
    page.fill("[name=jobs]", "60")
    page.select_option("[name='v1.policy']", "srtf")
    page.click("button[value=ask]")
    page.wait_for_url("**/whatif/*")

    expect(page.locator("#figures tbody tr")).to_have_count(2, timeout=120_000)
    expect(page.locator("[data-drawn]").first).to_be_visible(timeout=20_000)
    address = page.url
    page.click("summary:has-text('Apply srtf')")
    page.click("button[name=variant][value='1']")

    client = demo.client("admin")
    wait_for("srtf decides", lambda: client.get("/api/v1/settings")["policy"] == "srtf", within_s=20)
    assert page.url == address
    settings = client.call("GET", "/api/v1/settings")
    headers = {"If-Match": settings.headers.get("etag", "")}
    assert client.call("PATCH", "/api/v1/settings", {"policy": "las"}, headers=headers).status == 200


def test_what_if_reads_without_scripts_and_fits_a_phone(browser: Browser, demo: Stack) -> None:
    """List and form are there without scripts; nothing scrolls sideways at 390."""
    plain = browser.new_context(java_script_enabled=False)
    watched = Watched(plain, demo, "admin")
    for path in ("/whatif", "/whatif/new"):
        assert len(watched.open(path).inner_text("main")) > 100
    plain.close()
    small = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark")
    watched = Watched(small, demo, "admin")
    for path in ("/whatif", "/whatif/new"):
        overflow = watched.open(path).evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert overflow <= 0, path
    small.close()
    assert not watched.errors
