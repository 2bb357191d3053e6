"""An admin's day: four policies on the live cluster and on an uploaded month, the winner applied, seen and audited.

With ``PICTURES=1`` the pictures of ``docs/what-if.md`` are taken on the way.
"""

from playwright.sync_api import Page, expect

from tests.browser.conftest import Watched, picture
from tests.support.e2e.stack import ROOT, Stack, wait_for

MONTH = ROOT / "fixtures" / "traces" / "philly_2017-10.csv.gz"
WITHIN_MS = 600_000  # it only ends what hangs, on the slowest machine
POLICIES = ("las", "srtf", "ftf", "fifo")
QUICK = {"queue": "vision", "command": ["python", "-S", "-c", "pass"]}
LONG = {"queue": "speech", "command": ["python", "-S", "-c", "import time; time.sleep(600)"]}


def ask_about_policies(page: Page, name: str) -> None:
    """Fill in the four variants and ask."""
    page.fill("[name=name]", name)
    page.fill("[name=seeds]", "1")
    for _ in POLICIES[2:]:
        page.click("button[name=do][value=add]")
    for at, policy in enumerate(POLICIES):
        page.select_option(f"[name='v{at}.policy']", policy)


def compared(page: Page) -> None:
    """Wait for the result with its charts."""
    # Variants that are done stand there while others run, and the page comes anew with the last of them.
    expect(page.locator("#figures tbody tr")).to_have_count(len(POLICIES), timeout=WITHIN_MS)
    expect(page.locator("#progress")).to_have_count(0, timeout=WITHIN_MS)
    expect(page.locator(".band.bad")).to_have_count(0)
    expect(page.locator("[data-drawn]").first).to_be_visible(timeout=60_000)


def winner(page: Page) -> str:
    """Return the policy with the best mean completion time."""
    row = page.locator("#figures tbody tr", has=page.locator("td[data-title='Mean JCT'] .wins")).first
    return POLICIES[int(row.get_attribute("data-arm") or 0)]


def test_admin_compares_four_policies_and_applies_the_winner(admin: Watched, demo: Stack) -> None:
    """From the question to the audit; nothing on the way needs more than the pages."""
    client = demo.client("admin")
    quick = [client.submit(name=f"quick-{at}", **QUICK) for at in range(6)]
    for job_id in quick:  # so that something is known of how long jobs run
        client.wait_state(job_id, "completed", within_s=120)
    busy = [client.submit(name=f"long-{at}", **LONG) for at in range(6)]  # the demo's jobs may all have ended
    client.wait_state(busy[0], "running")
    page = admin.open("/whatif/new")
    page.check("input[name=kind][value=live]")
    ask_about_policies(page, "Which policy now?")
    page.click("button[value=ask]")
    compared(page)
    assert "The live cluster" in page.inner_text(".page-head")
    picture(page, "admin-live")

    page = admin.open("/whatif/new")
    ask_about_policies(page, "Which policy for October?")
    page.check("input[name=kind][value=trace]")
    page.set_input_files("input[name=upload]", str(MONTH))
    page.fill("[name=num_jobs]", "6000")
    page.check("input[name=cluster][value=own]")
    page.fill("[name=servers]", "14")
    picture(page, "admin-ask")
    page.click("button[value=ask]")
    page.wait_for_selector("#progress")
    picture(page, "admin-progress")
    compared(page)
    picture(page, "admin-month", whole=True)

    best = winner(page)
    before = client.get("/api/v1/settings")["policy"]
    page.click(f".apply-card a:has-text('Apply {best}')")
    expect(page.locator("#next-round")).to_contain_text("A round made now with them would preempt")
    picture(page, "admin-apply")
    page.fill("#reason", "The month says so")
    page.click(f"button:has-text('Apply {best}')")
    wait_for("the winner decides", lambda: client.get("/api/v1/settings")["policy"] == best, within_s=60)
    page = admin.open("/admin")
    expect(page.locator("input[name=policy]:checked")).to_have_value(best)
    picture(page, "admin-settings")
    audited = admin.open("/admin/audit").inner_text("main")

    assert best != before or best == "las"
    assert best in audited
    client.change_settings(policy=before)
    for job_id in busy:
        assert client.call("POST", f"/api/v1/jobs/{job_id}/cancel").status in {200, 202}
