"""A lead's day: the own queue, a quota that moves, its consequences before it is saved, and the line of the change.

With ``PICTURES=1`` the pictures of ``docs/leads.md`` are taken on the way.
"""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Watched, picture
from tests.support.e2e.stack import Stack

ABOVE = "/api/v1/queues/research/members/lead"
QUICK = {"queue": "vision", "command": ["python", "-S", "-c", "pass"]}
REASON = "Two fine-tuning runs until Friday"


@pytest.fixture
def lead(browser: Browser, demo: Stack) -> Iterator[Watched]:
    """The browser of a lead of the queue above both teams, in a cluster where a few jobs have ended."""
    admin = demo.client("admin")
    assert admin.call("PUT", ABOVE, {"role": "lead"}).status == 200
    for job_id in [admin.submit(name=f"quick-{at}", **QUICK) for at in range(6)]:
        admin.wait_state(job_id, "completed", within_s=180)
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    watched = Watched(context, demo, "lead")
    yield watched
    context.close()
    assert admin.call("DELETE", ABOVE).status == 204
    assert not watched.errors, watched.errors


def test_lead_moves_quota_sees_consequences_and_saves(lead: Watched, demo: Stack) -> None:
    """From the list of queues to the audit line; nothing is stored before the lead says so."""
    client = demo.client("admin")
    page = lead.open("/queues")
    page.click("a.queue-name:has-text('vision')")
    expect(page.locator("#share[data-drawn]")).to_be_visible(timeout=60_000)
    picture(page, "lead-queue")

    page.click(".tabs a:has-text('Quota')")
    page.fill("[name=reason]", REASON)
    page.locator("label:has-text('speech') ~ input[type=number]").fill("1")
    page.locator("#quota-slide").fill("3")
    rows = page.locator("#consequences tbody tr")
    expect(rows.filter(has_text="vision")).to_contain_text("3")
    expect(rows.filter(has_text=re.compile("speech.*1", re.DOTALL))).to_have_count(1)
    expect(page.locator("#consequences:not([aria-busy])")).to_be_visible(timeout=60_000)
    assert page.input_value("[name=reason]") == REASON
    assert [client.get(f"/api/v1/queues/{name}")["quota_gpus"] for name in ("vision", "speech")] == [2, 2]
    picture(page, "lead-preview")
    check_refusal(page, lead)

    page.click("button:has-text('Save quota')")
    expect(page.locator("#changes")).to_contain_text(f"to 3: {REASON}.")
    assert [client.get(f"/api/v1/queues/{name}")["quota_gpus"] for name in ("vision", "speech")] == [3, 1]
    picture(page, "lead-saved")

    page.fill("[name=limits-user_max_gpus]", "2")
    page.fill("[name=limits-reason]", "Everybody gets a turn")
    page.click("button:has-text('Save limits')")
    expect(page.locator("#changes")).to_contain_text("lets each user of vision hold 2\u00a0CPU slots at most")
    page.click(".tabs a:has-text('Members')")
    expect(page.locator("table")).to_contain_text("of 2")
    picture(page, "lead-members")
    page.click(".tabs a:has-text('Usage and loans')")
    expect(page.locator("#usage-title")).to_contain_text("CPU slot-hours")
    picture(page, "lead-usage")
    with page.expect_download() as download:
        page.click("a:has-text('CSV')")
    assert download.value.suggested_filename == "usage-vision.csv"
    put_back(demo)


def test_lead_of_a_team_previews_and_asks(browser: Browser, demo: Stack) -> None:
    """The tab is the form of a request from the start: number, difference, preview, day, reason, one button."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    watched = Watched(context, demo, "lead")
    page = watched.open("/queues/vision?tab=quota")
    page.locator("#quota-slide").fill("3")
    expect(page.locator("#quota-difference")).to_have_text("+1")
    expect(page.locator("[name=quota_gpus]")).to_have_value("3")
    expect(page.locator("#consequences:not([aria-busy])")).not_to_contain_text("What another quota would do")
    page.fill("[name=ask-reason]", REASON)
    page.click("button:has-text('Send the request')")
    expect(page.locator("#asked-list")).to_contain_text(REASON)
    page.click("button:has-text('Withdraw')")
    expect(page.locator("#asked-list")).to_contain_text("Withdrawn")
    assert demo.client("admin").get("/api/v1/queues/vision")["quota_gpus"] == 2
    context.close()
    assert not watched.errors, watched.errors


def check_refusal(page: Page, lead: Watched) -> None:
    """A preview that is refused says why at its field, once; the card says that its answer is of other values."""
    rows = page.locator("#consequences tbody tr").count()
    page.fill("[name=quota_gpus]", "-1")
    page.click("[data-preview]")
    field = page.locator(".quota-form .field.wrong")
    expect(field).to_contain_text("-1 is less than 0. Give a whole number, 0 or more.")
    expect(field.locator("[name=quota_gpus]")).to_have_attribute("aria-invalid", "true")
    assert page.inner_text("main").count("-1 is less than 0.") == 1
    said = "Of the last values that could be saved" if rows else "No preview of these values"
    expect(page.locator("#consequences")).to_contain_text(said)
    expect(page.locator("#consequences tbody tr")).to_have_count(rows)
    page.fill("[name=quota_gpus]", "3")
    page.click("[data-preview]")
    expect(page.locator("#consequences tbody tr").first).to_be_visible(timeout=60_000)
    expect(page.locator(".quota-form .wrong, .quota-form .error-list")).to_have_count(0)
    lead.errors = [error for error in lead.errors if "422" not in error]  # the browser's own line of a refused request


def put_back(demo: Stack) -> None:
    """Leave the demo as it was for the other tests."""
    client = demo.client("admin")
    any_version = {"If-Match": "*"}
    limits = {"user_max_gpus": None, "reason": "as it was"}
    assert client.call("PATCH", "/api/v1/queues/vision/limits", limits, headers=any_version).status == 200
    quota = {"quota_gpus": 2, "moves": {"speech": 2}, "reason": "as it was"}
    assert client.call("PATCH", "/api/v1/queues/vision", quota, headers=any_version).status == 200


def test_quota_is_previewed_without_scripts_and_fits_a_phone(lead: Watched, browser: Browser, demo: Stack) -> None:
    """The Preview button works as a plain form; no tab scrolls sideways at 390."""
    for options in ({"java_script_enabled": False}, {"viewport": {"width": 390, "height": 844}}):
        context = browser.new_context(**options)
        watched = Watched(context, demo, "lead")
        page = watched.open("/queues/vision?tab=quota")
        if "viewport" in options:
            for tab in ("overview", "quota", "members", "usage"):
                overflow = watched.open(f"/queues/vision?tab={tab}").evaluate(
                    "document.documentElement.scrollWidth - window.innerWidth"
                )
                assert overflow <= 0, tab
        else:
            page.fill("[name=quota_gpus]", "1")
            page.click("[data-preview]")
            expect(page.locator("#consequences tbody tr.first")).to_have_count(2)
        context.close()
        assert not watched.errors
