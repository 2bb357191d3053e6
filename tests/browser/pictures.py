"""Take the pictures of ``docs/pictures``: ``make pictures``.

Starts the simulated cluster with its week, adds jobs of which some have to wait, and photographs the main pages as
a lead and as an admin sees them, in both themes and at both widths.
"""

import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path
from typing import Any

from playwright.sync_api import Browser, Page, sync_playwright

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


def compared(demo: Stack) -> str:
    """Return a what-if question over the demo's last week that has been answered."""
    client, now = demo.client("admin"), datetime.now(UTC)
    question = {
        "name": "Which policy for such a week?",
        "start": {"kind": "past", "since": (now - timedelta(days=6)).isoformat(), "until": now.isoformat()},
        "variants": [{}, {"policy": "srtf"}, {"policy": "ftf"}, {"policy": "fifo"}],
        "seeds": [1, 2, 3],
    }
    scenario = str(client.call("POST", "/api/v1/whatif", question).json["id"])
    wait_for("answer", lambda: client.get(f"/api/v1/whatif/{scenario}")["state"] == "completed", within_s=300)
    return scenario


def preview_quota(page: Page) -> None:
    """Ask what a larger quota would do."""
    field = page.locator("#quota-slide")
    field.fill(str(int(field.input_value()) + 4))
    page.locator("#consequences:not([aria-busy]) tbody tr").first.wait_for(timeout=60_000)


def open_palette(page: Page) -> None:
    """Open the command palette with a few letters in it."""
    page.keyboard.press("Control+k")
    page.keyboard.type("res")
    page.get_by_role("option").first.wait_for()


@dataclass(frozen=True, slots=True, kw_only=True)
class Shot:
    """One page to photograph.

    Attributes:
        path: Where it is.
        who: Signed in as.
        act: What is done on the page before.
    """

    path: str
    who: str = WHO
    act: Callable[[Page], None] = lambda page: None


def photograph(page: Page, demo: Stack, shot: Shot, file: Path) -> None:
    """Save one picture of a page that has settled."""
    page.goto(f"{demo.url}{shot.path}")
    page.wait_for_load_state("load")
    shot.act(page)
    page.wait_for_timeout(2500)
    page.screenshot(path=str(file))
    print(file.relative_to(ROOT), flush=True)


def photograph_all(browser: Browser, demo: Stack, shots: Mapping[str, Shot], target: Path) -> None:
    """Photograph each page in both themes and at both widths."""
    for theme, (size, (width, height)), who in product(THEMES, SIZES.items(), (WHO, "admin")):
        context = browser.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if theme == "dark" else "light"
        )
        page = context.new_page()
        sign_in(page, demo, who)
        for name, shot in shots.items():
            if shot.who == who:
                photograph(page, demo, shot, target / f"{name}-{theme}-{size}.png")
        context.close()


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
            shots = {
                "dashboard": Shot(path="/"),
                "jobs": Shot(path="/jobs"),
                "job": Shot(path=f"/jobs/{job}"),
                "waiting": Shot(path=f"/jobs/{waiting}/why"),
                "submit": Shot(path="/jobs/new"),
                "cluster": Shot(path="/cluster"),
                "overview": Shot(path="/", who="admin"),
                "palette": Shot(path="/", who="admin", act=open_palette),
                "wall": Shot(path="/wall", who="admin"),
                "quota": Shot(path="/queues/vision?tab=quota", who="admin", act=preview_quota),
                "whatif": Shot(path=f"/whatif/{compared(demo)}", who="admin"),
            }
            browser = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
            photograph_all(browser, demo, shots, target)
            browser.close()
        finally:
            demo.destroy()
    return 0


if __name__ == "__main__":
    sys.exit(main())
