"""What an admin looks after, in a browser: a shadow policy, a webhook that is told, the cluster, who did what.

With ``PICTURES=1`` the pictures of ``docs/admins.md`` are taken on the way.
"""

from playwright.sync_api import expect

from tests.browser.conftest import Watched, picture
from tests.support.e2e.stack import Stack, wait_for
from tests.support.rows.notices import Receiver

QUICK = {"queue": "vision", "command": ["python", "-S", "-c", "import time; time.sleep(2)"]}


def test_admin_looks_after_the_cluster(admin: Watched, demo: Stack, receiver: Receiver) -> None:
    """Each step by the pages alone; the audit list has all of them with their reasons."""
    client = demo.client("admin")
    page = admin.open("/admin/shadow")
    page.check("input[name=policy][value=fifo]")
    page.fill("[name=reason]", "Would first come, first served do?")
    page.click("button:has-text('Let it plan')")
    expect(page.locator("h1")).to_contain_text("fifo")

    page = admin.open("/webhooks")
    page.fill("[name=name]", "team chat")
    page.fill("[name=url]", receiver.url)
    for notice in ("job.started", "job.finished", "job.preempted"):
        page.check(f"input[name=notices][value='{notice}']")
    page.click("button:has-text('Create webhook')")
    assert page.inner_text(".copy pre").startswith("cwh_")
    page.click("a:has-text('team chat')")
    page.click("button:has-text('Send a test')")
    ended = [client.submit(name=f"short-{at}", **QUICK) for at in range(6)]
    for job_id in ended:
        client.wait_state(job_id, "completed", within_s=180)
    webhook = page.url.rsplit("/", 1)[1]
    log = f"/api/v1/webhooks/{webhook}/deliveries"
    wait_for("deliveries", lambda: sum(row["state"] == "delivered" for row in client.get(log)["results"]) >= 13)
    page = admin.open(f"/webhooks/{webhook}")
    expect(page.locator("#log")).to_contain_text("job.finished")
    picture(page, "admin-webhook")

    wait_for("a replay of both", lambda: client.get("/api/v1/shadow")["scores"], within_s=120)
    page = admin.open("/admin/shadow")
    expect(page.locator("h1")).to_contain_text("replayed over")
    expect(page.locator("#rounds tbody tr").first).to_be_visible()
    picture(page, "admin-shadow")
    page = admin.open("/cluster?range=1h")
    expect(page.locator("#hours-table-title")).to_be_visible()
    page.locator(".over-time").scroll_into_view_if_needed()
    picture(page, "admin-cluster")
    page = admin.open("/admin/audit")
    expect(page.locator("table.audit")).to_contain_text("Would first come, first served do?")
    expect(page.locator("table.audit")).to_contain_text("team chat")
    picture(page, "admin-audit")
