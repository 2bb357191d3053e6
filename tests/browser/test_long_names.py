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


AUDIT_CELLS = [
    "lea.meier changed whether jobs of several queues share production-checkpoints",
    "introspection options migration, the most moves of a round",
    "Everybody gets a turn before the deadline on Wednesday",
]
END = """<span class="badge t-bad">Failed</span><span class="soft detail">Ended with exit code 1, on rank 0</span>
<code class="soft detail">RuntimeError: allocation of 2.00 GiB failed, expandable segments may help</code>"""
BROKEN = """row => {
  const found = [], walker = document.createTreeWalker(row, NodeFilter.SHOW_TEXT);
  const words = (node) => [...node.data.matchAll(/[A-Za-z]+/g)];
  for (let node = walker.nextNode(); node; node = walker.nextNode()) for (const word of words(node)) {
    const range = document.createRange();
    range.setStart(node, word.index);
    range.setEnd(node, word.index + word[0].length);
    if (new Set([...range.getClientRects()].map(({ top }) => Math.round(top))).size > 1) found.push(word[0]);
  }
  return found;
}"""


@pytest.mark.parametrize("width", [390, 1000, 1440])
def test_no_ordinary_word_breaks_beside_a_long_name(page: Page, site: Site, width: int) -> None:
    """In the audit list, and on a phone in the attempts of a failed job; no page scrolls sideways."""
    page.set_viewport_size({"width": width, "height": 844})
    page.goto(f"{site.url}/admin/audit")
    entry = page.locator("table.audit tbody tr").first
    entry.evaluate("(row, texts) => texts.forEach((text, at) => { row.cells[at].textContent = text; })", AUDIT_CELLS)

    assert entry.evaluate(BROKEN) == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.goto(f"{site.url}{site.paths['job-tab attempts']}")
    attempt = page.locator("table.attempts-table tbody tr").first
    attempt.locator("td.end").evaluate("(cell, html) => { cell.innerHTML = html; }", END)

    assert width > 859 or attempt.evaluate(BROKEN) == []
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
