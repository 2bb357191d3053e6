"""Take the pictures of ``docs/pictures``: ``make pictures``.

Starts the simulated cluster with its week, adds jobs of which some have to wait, and photographs dashboard, job page,
list, form and cluster in both themes and at both widths.
"""

import sys
import tempfile
from pathlib import Path
from typing import Any

from playwright.sync_api import Page, sync_playwright

from tests.browser.conftest import ARGUMENTS, CHROMIUM, sign_in
from tests.support.e2e.stack import ROOT, Stack, wait_for

SIZES = {"wide": (1440, 900), "narrow": (390, 844)}
THEMES = ("light", "dark")
WHO = "lead"  # has jobs and a queue, so that no part of a page is empty
# More than the cluster has room for, so that jobs run and wait until the last picture.
MORE, MORE_GPUS = ("resnet50-lr-01", "resnet50-lr-02", "resnet50-lr-03", "resnet50-lr-04"), 8
WEEK_WITHIN_S = 600.0


def jobs_in(demo: Stack, state: str) -> list[dict[str, Any]]:
    """Return the jobs in a state in full, newest first."""
    client = demo.client(WHO)
    return [client.job(row["id"]) for row in client.get(f"/api/v1/jobs?state={state}")["results"]]


def interesting_job(demo: Stack) -> str:
    """Return the running job with most to show: preempted before, then far on."""
    return str(max(jobs_in(demo, "running"), key=lambda job: (job["preemptions"], job["step"] or 0))["id"])


def told(demo: Stack) -> str:
    """Return the newest waiting job that is told when it starts; empty before."""
    client = demo.client(WHO)
    for row in client.get("/api/v1/jobs?state=queued")["results"]:
        estimate = client.get(f"/api/v1/jobs/{row['id']}/explain")["estimate"]  # none where it has just started
        if estimate and estimate["p50_at"]:
            return str(row["id"])
    return ""


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
        print("Chromium is not installed: make test-all installs it.", file=sys.stderr)
        return 1
    target = ROOT / "docs" / "pictures"
    target.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="clusterweb-pictures-") as directory, sync_playwright() as playwright:
        demo = Stack(Path(directory) / "var", DEMO_WEEK="1", ROUND_S="10", LEASE_TTL_S="20")
        try:
            demo.start(within_s=WEEK_WITHIN_S, servers=3)  # its fourth is being drained
            for name in MORE:
                command = ["python", "train.py", "--model", "resnet50"]
                environ = {"SIMULATED_STEPS": "90000", "SIMULATED_STEPS_PER_S": "3.2"}
                resources = {"gpus": MORE_GPUS, "cpus": 4 * MORE_GPUS, "memory": "256GiB"}
                demo.client(WHO).submit(
                    name=name, queue="vision", command=command, env=environ, resources=resources,
                    progress={"total_steps": 90000},
                )  # fmt: skip
            wait_for("running jobs", lambda: jobs_in(demo, "running"))
            waiting = wait_for("a job with an estimate", lambda: told(demo), within_s=120)
            job = interesting_job(demo)
            pages = {
                "dashboard": "/",
                "jobs": "/jobs",
                "job": f"/jobs/{job}",
                "waiting": f"/jobs/{waiting}/why",
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
