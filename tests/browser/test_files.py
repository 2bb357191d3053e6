"""Files of a job that really ran: the tree by keys, previews, selection, downloads, and the same without scripts."""

import base64
import zipfile
from typing import Any

import pytest
from playwright.sync_api import Browser, Download, Page, expect

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


def names_in(download: Download) -> list[str]:
    """Return the names in a zip that the browser got."""
    with zipfile.ZipFile(download.path()) as archive:
        assert archive.testzip() is None
        return sorted(archive.namelist())


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


def test_several_are_selected_by_keys_and_boxes_and_come_as_one_zip(member: Watched, key: str) -> None:
    """Space, boxes, ranges and folders count in the foot, the first two files are shown, and closing hides nothing."""
    page = member.open(f"/jobs/{key}/files?open=out&show=")
    foot, previews = page.locator("#files-foot"), page.locator(".preview h2")
    expect(foot).to_contain_text("Space or a tick selects")
    expect(foot.get_by_role("button")).to_have_count(0)
    row(page, "metrics.json").focus()
    page.keyboard.press(" ")
    expect(foot).to_contain_text("1 selected 14 B")
    expect(previews).to_have_text(["metrics.json"])
    expect(row(page, "metrics.json")).to_be_focused()
    expect(row(page, "metrics.json")).to_have_attribute("aria-selected", "true")

    row(page, "samples.png").get_by_role("checkbox").click()
    expect(previews).to_have_text(["metrics.json", "samples.png"])
    row(page, "last.pt").get_by_role("checkbox").click(modifiers=["Shift"])
    expect(foot).to_contain_text("3 selected 2.9 MiB")
    page.keyboard.press("Enter")
    expect(previews).to_have_text(["samples.png", "last.pt"])

    row(page, "out").focus()
    page.keyboard.press(" ")
    expect(row(page, "samples.png").get_by_role("checkbox")).to_be_disabled()
    expect(foot).to_contain_text("3 selected 4 files, 2.9 MiB")
    page.keyboard.press("ArrowLeft")
    expect(row(page, "samples.png")).to_have_count(0)
    expect(row(page, "out").get_by_role("checkbox")).to_be_checked()
    with page.expect_download() as started:
        foot.get_by_role("button", name="Download zip").click()
    assert started.value.suggested_filename == f"{key}-selected.zip"
    assert names_in(started.value) == ["last.pt", "metrics.json", "out/deep/notes.txt", "out/samples.png"]

    row(page, "out").focus()
    page.keyboard.press(" ")
    expect(foot).to_contain_text("2 selected 2.9 MiB")
    foot.get_by_role("button", name="Clear").click()
    expect(page.locator("#files-table [aria-selected=true]")).to_have_count(0)
    page.evaluate("document.getElementById('files-form').dataset.mostPaths = 0")
    row(page, "out").focus()
    page.keyboard.press(" ")
    expect(foot).to_contain_text("1 selected is too much for one download")
    expect(foot.get_by_role("button", name="Download zip")).to_be_disabled()


def test_arrows_with_shift_select_and_d_downloads_the_selection(member: Watched, key: str) -> None:
    """On and back; without a selection D takes the row."""
    page = member.open(f"/jobs/{key}/files?open=&show=")
    foot = page.locator("#files-foot")
    row(page, "out").focus()
    page.keyboard.press("Shift+ArrowDown")
    page.keyboard.press("Shift+ArrowDown")
    expect(foot).to_contain_text("3 selected")
    page.keyboard.press("Shift+ArrowUp")
    expect(foot).to_contain_text("2 selected")
    with page.expect_download() as started:
        page.keyboard.press("d")
    assert started.value.suggested_filename == f"{key}-selected.zip"


def test_slash_filters_names(member: Watched, key: str) -> None:
    """While one types; what is selected stays so, and an arrow leads back into the list."""
    page = member.open(f"/jobs/{key}/files?open=&show=")
    row(page, "last.pt").get_by_role("checkbox").click()
    page.keyboard.press("/")
    page.keyboard.type("metri")
    expect(page.locator("#files-table tbody tr")).to_have_count(1)
    expect(page.locator("#files-match")).to_be_focused()
    expect(page.locator("#files-foot")).to_contain_text("1 selected")
    page.keyboard.press("ArrowDown")
    expect(row(page, "metrics.json")).to_be_focused()


def test_boxes_are_a_form_without_scripts(browser: Browser, demo: Stack, key: str) -> None:
    """Ticked files and folders arrive as one zip."""
    context = browser.new_context(viewport={"width": 1440, "height": 900}, java_script_enabled=False)
    page = context.new_page()
    sign_in(page, demo, "member")
    page.goto(f"{demo.url}/jobs/{key}/files")
    for name in ("out", "metrics.json"):
        row(page, name).get_by_role("checkbox").check()
    with page.expect_download() as started:
        page.get_by_role("button", name="Download zip").click()

    assert names_in(started.value) == ["metrics.json", "out/deep/notes.txt", "out/samples.png"]
    context.close()


def test_phone_keeps_the_selection_while_a_preview_is_a_page(browser: Browser, demo: Stack, key: str) -> None:
    """A box opens nothing; a tap opens that one preview, and Back leads to the list as it was."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    page = context.new_page()
    sign_in(page, demo, "member")
    page.goto(f"{demo.url}/jobs/{key}/files?open=")
    foot = page.locator("#files-foot")
    expect(foot.get_by_role("button", name="Download all")).to_be_visible()
    row(page, "last.pt").get_by_role("checkbox").tap()
    expect(foot).to_contain_text("1 selected 2.9 MiB")
    expect(page.locator(".preview").first).to_be_hidden()
    row(page, "metrics.json").get_by_role("link").first.tap()
    expect(page.locator(".preview:visible h2")).to_have_text(["metrics.json"])
    expect(page.locator("#files-table")).to_be_hidden()
    page.go_back()
    expect(page.locator("#files-table")).to_be_visible()
    expect(foot).to_contain_text("1 selected 2.9 MiB")
    expect(page.locator(".preview").first).to_be_hidden()
    context.close()


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
