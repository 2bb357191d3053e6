"""An admin asks what would happen, watches, and applies the winner."""

import re
from pathlib import Path

from playwright.sync_api import Browser, expect

from tests.browser.conftest import Watched
from tests.support.e2e.stack import Stack, wait_for


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

    # A page of which runs are under way loads itself anew when they are done; the last one no longer does.
    expect(page.locator("script[src*='whatif/progress']")).to_have_count(0, timeout=120_000)
    expect(page.locator("#figures tbody tr")).to_have_count(2, timeout=120_000)
    expect(page.locator("[data-drawn]").first).to_be_visible(timeout=60_000)
    assert (
        page.locator(".table-scroll[aria-labelledby=figures-title]").evaluate(
            "box => box.scrollWidth - box.clientWidth"
        )
        <= 0
    )
    page.set_viewport_size({"width": 390, "height": 844})
    # Name and mean completion at first; the rest of a variant opens on its own.
    assert page.locator("#figures tbody tr td.num:visible").count() == 2
    for summary in page.locator("#figures summary").all():
        summary.click()
    places = page.locator("#figures td").evaluate_all(
        "cells => cells.map(cell => [...cell.children].filter(part => part.textContent.trim())"
        ".map(part => part.getBoundingClientRect()).map(box => [Math.round(box.left), box.top]))"
    )
    # On a phone the figure, its interval and its change stand one under the other, at one edge.
    for parts in places:
        assert len({left for left, _ in parts}) <= 1, parts
        assert [top for _, top in parts] == sorted({top for _, top in parts}), parts
    page.set_viewport_size({"width": 1440, "height": 900})
    address = page.url
    page.click(".apply-card a:has-text('Apply srtf')")
    expect(page.locator("#next-round")).to_contain_text("A round made now with them would preempt")
    page.fill("#reason", "The week says so")
    page.click("button:has-text('Apply srtf')")

    client = demo.client("admin")
    wait_for("srtf decides", lambda: client.get("/api/v1/settings")["policy"] == "srtf", within_s=60)
    assert page.url == address
    expect(page.locator(".apply-card")).to_contain_text("srtf is in force")
    settings = client.call("GET", "/api/v1/settings")
    headers = {"If-Match": settings.headers.get("etag", "")}
    assert (
        client.call("PATCH", "/api/v1/settings", {"policy": "las", "reason": "as before"}, headers=headers).status
        == 200
    )


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


def test_runs_of_one_variant_are_told_apart_on_a_phone(browser: Browser, demo: Stack) -> None:
    """Each run has its seed at 390, and the error of a failed scenario stands there once."""
    client = demo.client("admin")
    question = {
        "name": "Cannot be drawn",
        "start": {"kind": "generator", "text": "philly?jobs=40&short=2"},
        "variants": [{"policy": "las"}, {"policy": "fifo"}],
        "seeds": [1, 2],
    }
    asked = client.call("POST", "/api/v1/whatif", question).json
    wait_for("it fails", lambda: client.get(f"/api/v1/whatif/{asked['id']}")["state"] == "failed", within_s=60)
    small = browser.new_context(viewport={"width": 390, "height": 844})

    page = Watched(small, demo, "admin").open(f"/whatif/{asked['id']}")

    expect(page.locator(".runs thead th", has_text="Seed")).to_be_visible()
    expect(page.locator("[data-run='0-2'] td").nth(1)).to_have_text("2")
    assert page.locator("main").inner_text().count("short jobs are a share") == 1
    assert page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
    small.close()


def test_upload_shows_bytes_and_can_be_cancelled(admin: Watched, browser: Browser, demo: Stack, tmp_path: Path) -> None:
    """A slow upload says how far it is, cancelled it keeps nothing; then it is in the list. No scripts, no bar."""
    file = tmp_path / "autumn.csv"
    file.write_text("arrival_s,run_s,num_gpus\n" + "".join(f"{row},100,1\n" for row in range(200_000)))
    page = admin.open("/whatif")
    network = page.context.new_cdp_session(page)
    speed = {"offline": False, "latency": 0, "downloadThroughput": -1}
    network.send("Network.enable")
    network.send("Network.emulateNetworkConditions", {**speed, "uploadThroughput": 300_000})
    page.set_input_files("#id_trace_upload", str(file))
    page.click(".trace-upload button[type=submit]")
    expect(page.locator(".upload [role=progressbar]")).to_have_attribute("aria-valuenow", re.compile("^[1-9]"))
    expect(page.locator(".upload")).to_contain_text("of 2.4 MiB")
    page.click("text=Cancel upload")
    expect(page.locator("#id_trace_upload_note")).to_have_text("The upload is cancelled. Nothing is kept.")
    assert "autumn.csv" not in page.inner_text("#traces")

    network.send("Network.emulateNetworkConditions", {**speed, "uploadThroughput": -1})
    page.click(".trace-upload button[type=submit]")
    expect(page.locator("#traces tbody")).to_contain_text("autumn.csv")
    file.write_text("no trace at all")
    page.set_input_files("#id_trace_upload", str(file))
    page.click(".trace-upload button[type=submit]")
    expect(page.locator("#id_trace_upload_note")).to_contain_text("like none of the formats")
    admin.errors.clear()  # the refusal, which the console calls an error

    plain = browser.new_context(java_script_enabled=False)
    page = Watched(plain, demo, "admin").open("/whatif")
    file.write_text("arrival_s,run_s,num_gpus\n0,100,1\n")
    page.set_input_files("#id_trace_upload", str(file))
    page.click(".trace-upload button[type=submit]")
    expect(page.locator("body")).to_contain_text("autumn.csv is kept")
    plain.close()
