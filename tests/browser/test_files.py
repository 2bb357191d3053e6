"""Files of a job that really ran: the tree by keys, previews, a download, and the same without scripts."""

import base64
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Watched, sign_in
from tests.support.e2e.stack import Stack
from tests.support.pages.world import PIXEL

SCRIPT = f"""
import base64, os
os.makedirs("out/deep")
open("out/samples.png", "wb").write(base64.b64decode({base64.b64encode(PIXEL)!r}))
open("out/deep/notes.txt", "w").write("<script>document.title = 'taken'</script>\\n")
open("metrics.json", "w").write('{{"top1": 0.79}}')
open("last.pt", "wb").write(b"w" * 3_000_000)
"""


@pytest.fixture(scope="module")
def key(demo: Stack) -> str:
    """A job that wrote files and ended."""
    client = demo.client("member")
    command = ["python", "-c", SCRIPT]
    job_id = client.submit(name="writes", queue="vision", command=command, resources={"gpus": 1, "memory": "512MiB"})
    job: dict[str, Any] = client.wait_state(job_id, "completed", within_s=180)
    return f"J-{job['number']}"


def row(page: Page, name: str) -> Any:  # a locator
    """Return the line of the tree with this name."""
    return page.locator("#files-table tbody tr", has=page.get_by_text(name, exact=True))


def test_tree_by_keys_previews_and_a_download(member: Watched, key: str) -> None:
    """Arrows open and move, Enter shows, D downloads; nothing that the job wrote runs."""
    page = member.open(f"/jobs/{key}/files?open=&show=")
    row(page, "out").focus()
    page.keyboard.press("ArrowRight")
    expect(row(page, "deep")).to_be_visible()
    expect(row(page, "out")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(row(page, "deep")).to_be_focused()
    page.keyboard.press("ArrowRight")
    expect(row(page, "notes.txt")).to_be_visible()
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    expect(page.locator(".text-view")).to_contain_text("<script>document.title")
    assert "taken" not in page.title()

    row(page, "samples.png").get_by_role("link").first.click()
    expect(page.locator(".preview img")).to_have_js_property("naturalWidth", 1)
    row(page, "last.pt").focus()
    with page.expect_download() as started:
        page.keyboard.press("d")
    assert started.value.path().read_bytes() == b"w" * 3_000_000
    with page.expect_download() as started:
        page.get_by_role("link", name="Download all").first.click()
    assert started.value.suggested_filename == f"{key}.zip"

    row(page, "out").focus()
    page.keyboard.press("ArrowLeft")
    expect(row(page, "deep")).to_have_count(0)


def test_phone_shows_the_list_then_the_file(browser: Browser, demo: Stack, key: str) -> None:
    """Without scripts too: a tap opens the preview as a page of its own."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, java_script_enabled=False)
    page = context.new_page()
    sign_in(page, demo, "member")
    page.goto(f"{demo.url}/jobs/{key}/files")
    expect(page.locator(".preview").first).to_be_hidden()
    page.get_by_role("link", name="metrics.json", exact=True).click()
    expect(page.locator(".text-view")).to_contain_text('"top1"')
    expect(page.locator("#files-table")).to_be_hidden()
    page.get_by_role("link", name="All files").click()
    expect(page.locator("#files-table")).to_be_visible()
    context.close()
