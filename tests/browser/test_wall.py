"""The wall in a browser: a link opens it and leaves no code behind, jobs fly in and out, it fits 1080p and 4K."""

import json
import re
from collections.abc import Iterator

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]  # has no types
from playwright.sync_api import Browser, Page, ViewportSize, WebSocketRoute, expect

from tests.browser.site import Site, site_served
from tests.browser.test_accessibility import faults

FULL_HD: ViewportSize = {"width": 1920, "height": 1080}
FOUR_K: ViewportSize = {"width": 3840, "height": 2160}
WIDE: ViewportSize = {"width": 1440, "height": 900}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A cluster with something of everything."""
    with site_served("full", tmp_path_factory.mktemp("wall")) as served:
        yield served


class Frames:
    """The live socket of a page, in the place of a broker: what is told is sent to it."""

    def __init__(self, page: Page) -> None:
        self.socket: WebSocketRoute | None = None
        page.route_web_socket("**/ws/live*", self._take)

    def _take(self, socket: WebSocketRoute) -> None:
        self.socket = socket

    def tell(self, number: int) -> None:
        """Send a frame of the cluster that differs from the last one."""
        assert self.socket
        frame = {
            "round": number,
            "servers": [],
            "allocated_gpus": 0,
            "busy_gpus": 0,
            "waiting_jobs": 0,
            "paused": False,
        }
        self.socket.send(json.dumps({"kind": "cluster", "data": frame}))


def first(pattern: str, html: str) -> str:
    """Return the first group of the first match."""
    found = re.search(pattern, html)
    assert found, pattern
    return found[1]


def test_a_job_starts_and_another_is_preempted_before_the_eyes(browser: Browser, site: Site) -> None:
    """A frame comes, the page is fetched again, and what changed moves; the end is what the server rendered."""
    context = browser.new_context(viewport=FULL_HD)
    context.add_cookies([{"name": site.cookie[0], "value": site.cookie[1], "url": site.url}])
    page = context.new_page()
    frames = Frames(page)
    page.goto(f"{site.url}/wall")
    html = page.request.get(f"{site.url}/wall").text()
    waits, runs = first(r'<li data-job="(\d+)"', html), first(r'cell q\d" data-job="([1-9]\d*)"', html)
    # The first that waits is given a free device, the first that runs loses its own and waits.
    then = html.replace('class="cell free" data-job="0"', f'class="cell q3" data-job="{waits}"', 1)
    then = re.sub(rf'class="cell q\d" data-job="{runs}"', 'class="cell free" data-job="0"', then)
    then = then.replace(f'<li data-job="{waits}"', f'<li data-job="{runs}" class="taken"', 1)
    page.route("**/wall", lambda route: route.fulfill(body=then, content_type="text/html"))
    page.wait_for_function("document.documentElement.dataset.live === 'live'")
    frames.tell(2)

    expect(page.locator(".flier").first).to_be_attached()
    expect(page.locator(f'#map .cell[data-job="{waits}"]')).to_have_count(1)
    expect(page.locator(f'#map .cell[data-job="{runs}"]')).to_have_count(0)
    expect(page.locator(f'#line li.taken[data-job="{runs}"]')).to_be_visible()
    expect(page.locator(".flier")).to_have_count(0)
    expect(page.locator(".cell.coming")).to_have_count(0)
    context.close()


def test_with_less_motion_nothing_flies(browser: Browser, site: Site) -> None:
    """The colours change at once."""
    context = browser.new_context(viewport=FULL_HD, reduced_motion="reduce")
    context.add_cookies([{"name": site.cookie[0], "value": site.cookie[1], "url": site.url}])
    page = context.new_page()
    frames = Frames(page)
    page.goto(f"{site.url}/wall")
    html = page.request.get(f"{site.url}/wall").text()
    waits = first(r'<li data-job="(\d+)"', html)
    then = html.replace('class="cell free" data-job="0"', f'class="cell q3" data-job="{waits}"', 1)
    page.route("**/wall", lambda route: route.fulfill(body=then, content_type="text/html"))
    page.wait_for_function("document.documentElement.dataset.live === 'live'")
    frames.tell(2)

    expect(page.locator(f'#map .cell[data-job="{waits}"]')).to_have_count(1)
    expect(page.locator(".flier")).to_have_count(0)
    context.close()


@pytest.mark.parametrize("size", [FULL_HD, FOUR_K], ids=["1080p", "4K"])
def test_it_fills_the_screen_and_never_scrolls(browser: Browser, site: Site, size: ViewportSize) -> None:
    """4K is 1080p twice as large; axe finds nothing serious in either theme."""
    context = browser.new_context(viewport=size)
    context.add_cookies([{"name": site.cookie[0], "value": site.cookie[1], "url": site.url}])
    page = context.new_page()
    for theme in ("dark", "light"):
        page.goto(f"{site.url}/wall?theme={theme}")
        page.evaluate(Axe().axe_script)
        assert not faults(page)
        box = page.locator("#wall").bounding_box()
        assert box is not None
        assert abs(box["width"] - size["width"]) < 1
        assert page.evaluate("document.documentElement.scrollHeight <= innerHeight")
        past = page.evaluate(
            "[...document.querySelectorAll('#wall section:not(.band)')]"
            ".filter(part => part.scrollHeight > part.clientHeight + 2).map(part => part.id)"
        )
        assert not past, past
    context.close()


LONG_NAME = "llm-pretraining-of-the-spring-of-the-year-042"
CAUSES = [
    " is preempted: language took its quota back.",
    " is preempted: a job of lang\u2026age goes first.",
    " failed: no server confirmed it.",
]
WHYS = ["110 of lang\u2026tion's quota left", "128 jobs ahead, 16 are free", "language took its quota back"]
PAST_ITS_BOX = """() => {
  const whole = ".told > span, .why span:last-child, .when, .who, .label, .under";
  const isCut = (part) => part.matches(whole) && part.scrollWidth > part.clientWidth + 1
    && getComputedStyle(part).display !== "inline";
  const isOut = (part) => {
    const frame = part.closest("section, header").getBoundingClientRect(), box = part.getBoundingClientRect();
    return box.width && !part.closest("svg, .line li, .band")
      && (box.right > frame.right + 1 || box.bottom > frame.bottom + 1);
  };
  return [...document.querySelectorAll("#wall section *, #wall header *")]
    .filter((part) => isCut(part) || isOut(part))
    .map((part) => `${part.className || part.tagName}: ${part.textContent.slice(0, 60)}`);
}"""


@pytest.mark.parametrize("size", [FULL_HD, WIDE], ids=["1080p", "16:10"])
def test_the_longest_words_stay_in_their_boxes(browser: Browser, site: Site, size: ViewportSize) -> None:
    """A next free server of another day, long names with each cause: names are cut, causes and times never."""
    context = browser.new_context(viewport=size)
    context.add_cookies([{"name": site.cookie[0], "value": site.cookie[1], "url": site.url}])
    page = context.new_page()
    html = page.request.get(f"{site.url}/wall").text()
    when = '<p class="when"><span>about 30 Nov</span> 00:07</p>'
    html = re.sub(r'<p class="when">.*?</p>', when, html)
    name = f'<span class="fit"><span>{LONG_NAME[:-4]}</span><span>{LONG_NAME[-4:]}</span></span>'
    lines = "".join(
        f'<li class="t-warn"><time>Wed 00:07</time><svg class="i"></svg><span class="told"><b>{name}</b><span>{cause}'
        "</span></span></li>"
        for cause in CAUSES
    )
    html = re.sub(r'(id="news".*?<ol>).*?</ol>', rf"\1{lines}</ol>", html, flags=re.DOTALL)
    rows = "".join(
        f'<li data-job="1"><span class="swatch q1"></span><p><b class="name">{name}</b><span class="at">about <b>Wed '
        f'00:07</b></span></p><p><span class="why"><span class="fit"><span>{why}</span></span></span>'
        '<span class="size">8 GPUs</span></p></li>'
        for why in WHYS
    )
    html = re.sub(r'(id="line".*?<ol>).*?</ol>', rf"\1{rows}</ol>", html, flags=re.DOTALL)
    page.route("**/wall", lambda route: route.fulfill(body=html, content_type="text/html"))
    page.goto(f"{site.url}/wall")

    expect(page.get_by_text("about 30 Nov")).to_be_visible()
    assert not (found := page.evaluate(PAST_ITS_BOX)), found
    cut = page.evaluate(
        "[...document.querySelectorAll('.told b > .fit > span:first-child')]"
        ".every(part => part.scrollWidth > part.clientWidth)"
    )
    assert cut, "the names gave way"
    band, wall = (page.locator(part).bounding_box() for part in ("#band", "body"))
    assert band
    assert wall
    assert abs(band["y"] + band["height"] - size["height"]) < 1, "the band is the bottom of the screen"
    context.close()


def test_a_link_opens_it_and_leaves_no_code_behind(browser: Browser, site: Site) -> None:
    """The admin makes it; a browser without a sign-in opens it; neither address nor history holds the code then."""
    admin = site.context(browser, "admin-walls")
    page = admin.new_page()
    page.goto(f"{site.url}/admin/walls")
    page.get_by_label("Where the screen hangs").fill("lobby 2")
    page.get_by_role("button", name="Make the link").click()
    link = page.locator("pre", has_text="/wall/open#").inner_text().strip()
    admin.close()
    context = browser.new_context(viewport=FULL_HD)
    screen = context.new_page()
    asked: list[str] = []
    screen.on("request", lambda request: asked.append(request.url))
    screen.goto(link)
    screen.wait_for_url(f"{site.url}/wall")
    code = link.split("#")[1]

    expect(screen.locator("#headline")).to_be_visible()
    assert not [url for url in asked if code in url.split("#")[0]]
    screen.go_back()
    assert code not in screen.url
    context.close()
