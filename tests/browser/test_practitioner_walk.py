"""A practitioner's day: one job three ways, why it waits and when it starts, what would start it; and it starts.

With ``PICTURES=1`` the pictures of ``docs/practitioners.md`` are taken on the way.
"""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Watched, picture
from tests.support.e2e.stack import ROOT, Stack, wait_for

TRAIN = "import time\nprint('training', flush=True)\ntime.sleep(600)\n"
SPEC: dict[str, Any] = {
    "apiVersion": "v1",
    "name": "resnet-walk",
    "queue": "vision",
    "command": ["python", "train.py"],
    "files": {"train.py": TRAIN},
    "resources": {"gpus": 2, "cpus": 0.2, "memory": "256MiB"},
    "progress": {"total_steps": 600},
}
SBATCH = (
    "#!/bin/bash\n#SBATCH --job-name=bert --gres=gpu:1 --time=02:00:00\n#SBATCH --partition=gpu\nsrun python t.py\n"
)


def brief(name: str, *, queue: str, code: str, gpus: int = 1) -> dict[str, Any]:
    """Return a spec of one line of Python."""
    resources = {"gpus": gpus, "cpus": 0.2, "memory": "256MiB"}
    return {"name": name, "queue": queue, "command": ["python", "-c", code], "resources": resources}


@pytest.fixture(scope="module")
def cluster() -> Iterator[Stack]:
    """Four slots on two servers, three of them taken for long; some jobs have ended, so that lengths are known."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-walk-") as directory:
        product = Stack(Path(directory) / "var", ROUND_S="2", LEASE_TTL_S="20")
        try:
            product.start()
            product.client("admin").change_settings(policy="fifo", policy_options={})
            lead = product.client("lead")
            past = [
                lead.submit(**brief(f"past-{n}", queue="vision", code=f"import time; time.sleep({n})"))
                for n in range(6)
            ]
            for job in past:
                lead.wait_state(job, "completed", within_s=120)
            other = product.client("outsider")
            long = "import time; from agents.runtime import Run; run = Run(total_steps=900); run.resume()\n"
            long += "run.on_checkpoint(dict)\nfor step in run.steps(): time.sleep(1); run.report(loss=1.0)"
            for n, (client, queue) in enumerate(((lead, "vision"), (other, "speech"), (other, "speech"))):
                client.wait_state(client.submit(**brief(f"long-{n}", queue=queue, code=long)), "running", within_s=90)
            yield product
        finally:
            product.destroy()


def by_curl(cluster: Stack) -> str:
    """Submit by curl; return the id."""
    command = [
        "curl",
        "-sS",
        f"{cluster.url}/api/v1/jobs",
        "-H",
        f"Authorization: Bearer {cluster.client('member').token}",
    ]
    command += ["-H", "Content-Type: application/json", "--data-binary", "@-"]
    done = subprocess.run(command, input=json.dumps(SPEC), capture_output=True, text=True, timeout=300, check=True)
    return str(json.loads(done.stdout)["id"])


def by_command(cluster: Stack, directory: Path, *arguments: str) -> str:
    """Run the command; return what it printed."""
    env = {"PATH": os.environ["PATH"], "HOME": str(directory), "PYTHONPATH": str(ROOT)}
    env |= {"CLUSTERWEB_URL": cluster.url, "CLUSTERWEB_TOKEN": cluster.client("member").token}
    done = subprocess.run(
        [sys.executable, "-m", "clusterweb.cli", *arguments],
        cwd=directory, env=env, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def stored(cluster: Stack, job: str) -> bytes:
    """Return the bytes of a stored spec."""
    return json.dumps(cluster.client("member").job(job)["spec"]).encode()


def submit_by_form(page: Page, url: str) -> str:
    """Fill the form, look at the preview, submit; return the number."""
    page.goto(f"{url}/jobs/new")
    page.fill("[name=name]", SPEC["name"])
    page.fill("[name=command]", "python train.py")
    page.fill("[name=file-0-name]", "train.py")
    page.fill("[name=file-0-text]", TRAIN)
    page.fill("[name=gpus]", "2")
    page.fill("[name=cpus]", "0.2")
    page.fill("[name=memory]", "256Mi")
    page.click("details.more summary >> text=More")
    page.fill("[name=total_steps]", "600")
    page.click("button[value=check]")
    expect(page.locator("#preview")).to_contain_text("Nothing is stored yet")
    expect(page.locator("#preview-title")).to_contain_text("It would")
    picture(page, "practitioner-preview")
    page.click(".submit-bar button[value=submit]")
    page.wait_for_url("**/jobs/J-*")
    return page.url.rpartition("/")[2]


def test_submit_three_ways_then_why_and_when_then_unblock(cluster: Stack, browser: Browser, tmp_path: Path) -> None:
    """The stored specs are the same bytes; the waiting job is told why, when and what helps; applied, it starts."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    watched = Watched(context, cluster, "member")
    page = watched.page
    member = cluster.client("member")
    number = submit_by_form(page, cluster.url)
    (tmp_path / "job.yaml").write_text(yaml.safe_dump({**SPEC, "files": {}}))
    (tmp_path / "train.py").write_text(TRAIN)
    foretold = by_command(cluster, tmp_path, "submit", "job.yaml", "--file", "train.py", "--dry-run")
    told = json.loads(by_command(cluster, tmp_path, "submit", "job.yaml", "--file", "train.py", "-o", "json"))
    others = [by_curl(cluster), told["id"]]

    assert "Nothing is stored." in foretold
    assert len({stored(cluster, job) for job in (number, *others)}) == 1
    for job in others:
        assert member.call("POST", f"/api/v1/jobs/{job}/cancel").status == 200

    wait_for("a reason", lambda: member.get(f"/api/v1/jobs/{number}/explain")["reason"] not in ("", "new"))
    # Those before it say how far they are, so its start must be known: half of the simulated futures by p50.
    wait_for("an estimate", lambda: member.get(f"/api/v1/jobs/{number}/explain")["estimate"]["p50_at"], within_s=90)
    page.goto(f"{cluster.url}/jobs/{number}/why")
    expect(page.locator("#why-reason")).to_contain_text("2 CPU slots")
    expect(page.get_by_text("Starts at about").first).to_be_visible()
    expect(page.locator("#unblock-title")).to_have_text("What would start it")
    picture(page, "practitioner-why")
    assert "Ask for 1 CPU slot instead of 2" in by_command(cluster, tmp_path, "explain", number)

    page.click(".offers li:has-text('Ask for 1 CPU slot') a")
    expect(page.locator("h1")).to_have_text("Change what resnet-walk asks for?")
    picture(page, "practitioner-apply")
    page.click("button[type=submit]:has-text('Change')")
    page.wait_for_url("**/why")
    member.wait_state(number, "running", within_s=60)
    page.goto(f"{cluster.url}/jobs/{number}")
    expect(page.locator("h1")).to_contain_text("Running", ignore_case=True)
    picture(page, "practitioner-started")

    context.close()
    assert not watched.errors


def test_import_fills_the_form_and_everything_fits_a_phone(cluster: Stack, browser: Browser) -> None:
    """A pasted script becomes fields with the list of what did not map; nothing scrolls sideways on a phone."""
    context = browser.new_context(viewport={"width": 390, "height": 844}, color_scheme="dark")
    watched = Watched(context, cluster, "member")
    page = watched.open("/jobs/new")
    page.click("summary:has-text('Paste an sbatch script')")
    page.fill("[name=foreign]", SBATCH)
    page.click("button[value=import]")
    expect(page.locator("[name=name]")).to_have_value("bert")
    expect(page.locator("#unmapped-title")).to_contain_text("did not map")
    picture(page, "practitioner-import")
    waiting = cluster.client("member").submit(**brief("wide", queue="vision", code="pass", gpus=2))
    for path in ("/jobs/new", "/jobs", f"/jobs/{waiting}/why", f"/jobs/{waiting}/unblock?gpus=1"):
        overflow = watched.open(path).evaluate("document.documentElement.scrollWidth - window.innerWidth")
        assert overflow <= 0, path
    watched.open(f"/jobs/{waiting}/why")
    picture(page, "practitioner-phone")

    context.close()
    assert not watched.errors
