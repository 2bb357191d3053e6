"""A user name as long as one may be, 150 letters, on a phone and on a wide screen: no page scrolls sideways."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page

from tests.browser.site import Site, site_served

LONG = "x" * 150


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster with something of everything."""
    with site_served("full", tmp_path_factory.mktemp("long")) as served:
        yield served


@pytest.fixture(scope="module")
def page(browser: Browser, site: Site) -> Iterator[Page]:
    """A page of an admin at 390 wide, where the user was made and given a role."""
    context = site.context(browser, "admin", viewport={"width": 390, "height": 844})
    page = context.new_page()
    page.goto(f"{site.url}/admin/users")
    page.fill("#id_username", LONG)
    page.click("button:has-text('Create user')")
    page.wait_for_selector(".band.ok")
    page.goto(f"{site.url}/queues/vision?tab=members")
    page.fill(".member-form [name=username]", LONG)
    page.click("button:has-text('Give the role')")
    page.wait_for_selector(f".member-acts:has-text('{LONG}')")
    yield page
    context.close()


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("path", ["/admin/users", f"/admin/users/{LONG}", "/queues/vision?tab=members", "/admin/audit"])
def test_a_long_name_is_wrapped(page: Page, site: Site, path: str, width: int) -> None:
    """In lists, in the heading of its page and in sentences."""
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(f"{site.url}{path}")

    assert LONG in page.inner_text("main")
    assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("width", [390, 1440])
def test_owners_of_waiting_jobs_break_only_where_they_are_long(page: Page, site: Site, width: int) -> None:
    """A hyphen breaks no ordinary name; a long one is wrapped within the page."""
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(f"{site.url}/queues/vision")
    owner = page.locator("#waiting .person").first
    for name, is_long in (("user-5", False), ("anna-lena.meier-kurz", False), (LONG, True)):
        owner.evaluate("(element, name) => { element.textContent = name; }", name)

        assert owner.evaluate("element => element.offsetHeight > 20") == is_long
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_question_before_a_member_is_removed_is_whole_on_a_phone(page: Page, site: Site) -> None:
    """It opens within the window, for short names and long ones, and its words are not cut off."""
    page.set_viewport_size({"width": 390, "height": 844})
    page.goto(f"{site.url}/queues/vision?tab=members")
    questions = page.locator(".confirm-remove")
    assert questions.count() > 1
    for at in range(questions.count()):
        page.locator(".member-acts summary").nth(at).click()
        box = questions.nth(at).bounding_box()
        assert box is not None
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= 390
        assert questions.nth(at).evaluate("form => form.scrollWidth <= form.clientWidth")
        page.locator(".member-acts summary").nth(at).click()
