"""Take the pictures of ``docs/pictures``: ``make pictures``.

Starts the demo, waits until it shows running, waiting and preempted jobs, and photographs dashboard, job page, list and
form in both themes and at both widths.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import ARGUMENTS, CHROMIUM, sign_in
from tests.e2e.stack import ROOT, Stack, wait_for

SIZES = {"wide": (1440, 900), "narrow": (390, 844)}
THEMES = ("light", "dark")
WHO = "lead"  # has jobs and a queue, so that no part of a page is empty
# Beside those of the demo, so that jobs run and wait until the last picture: name and workload.
LONGER = {"resnet-long": "resnet", "mobilenet-long": "mobilenet", "resnet-ablation": "resnet", "m5-wide": "m5"}
ENDED = 2  # so many completed jobs give the times and the fairness something to show


def running_jobs(demo: Stack) -> list[dict[str, Any]]:
    """Return the running jobs in full."""
    admin = demo.client(WHO)
    return [admin.job(row["id"]) for row in admin.get("/api/v1/jobs?state=running")["results"]]


def interesting_job(demo: Stack) -> str:
    """Return the running job with most to show: preempted before, then far on."""
    return str(max(running_jobs(demo), key=lambda job: (job["preemptions"], job["step"] or 0))["id"])


def busy(demo: Stack) -> bool:
    """Return whether jobs wait and have completed, and one runs that was preempted before and reports again."""
    waiting, ended = (demo.client(WHO).get(f"/api/v1/jobs?state={s}")["results"] for s in ("queued", "completed"))
    resumed = any(job["preemptions"] and job["steps_per_s"] for job in running_jobs(demo))
    return bool(waiting) and len(ended) >= ENDED and resumed


def photograph(page: Page, demo: Stack, path: str, file: Path) -> None:
    """Save one picture of a page that has settled."""
    page.goto(f"{demo.url}{path}")
    page.wait_for_load_state("load")
    page.wait_for_timeout(2500)
    page.screenshot(path=str(file))
    print(file.relative_to(ROOT), flush=True)


def main() -> int:
    """Take all pictures."""
    if not CHROMIUM:
        print("Chromium is not installed: make test-browser installs it.", file=sys.stderr)
        return 1
    target = ROOT / "docs" / "pictures"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="clusterweb-pictures-") as directory, sync_playwright() as playwright:
        demo = Stack(Path(directory) / "var", DEMO_JOBS="1", ROUND_S="10", LEASE_TTL_S="20")
        try:
            demo.start()
            for name, workload in LONGER.items():
                command = ["python", "-m", f"agents.workloads.{workload}", "--steps", "900"]
                demo.client(WHO).submit(name=name, queue="vision", command=command)
            wait_for("running, waiting, preempted and completed jobs", lambda: busy(demo), within_s=240)
            waiting = demo.client(WHO).get("/api/v1/jobs?state=queued")["results"]
            job = interesting_job(demo)
            pages = {
                "dashboard": "/",
                "jobs": "/jobs",
                "job": f"/jobs/{job}",
                "waiting": f"/jobs/{waiting[0]['id']}/why" if waiting else f"/jobs/{job}/why",
                "submit": "/jobs/new",
                "cluster": "/cluster",
            }
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            for theme in THEMES:
                for size, (width, height) in SIZES.items():
                    context = browser.new_context(
                        viewport={"width": width, "height": height}, color_scheme="dark" if theme == "dark" else "light"
                    )
                    page = context.new_page()
                    sign_in(page, demo, WHO)
                    for name, path in pages.items():
                        photograph(page, demo, path, target / f"{name}-{theme}-{size}.png")
                    context.close()
            browser.close()
        finally:
            demo.destroy()
    return 0


if __name__ == "__main__":
    sys.exit(main())
