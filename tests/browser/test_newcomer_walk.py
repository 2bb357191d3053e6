"""A newcomer's first ten minutes: a folder, its environment, a plain script, its files, a secret, a sweep.

With ``PICTURES=1`` the pictures of ``docs/practitioners.md`` are taken on the way.
"""

import json
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.conftest import Watched, picture
from tests.support.e2e.stack import Stack, wait_for
from tests.support.suite.wheels import Index

TRAIN = """import csv, os, time
import tinyvision

print("tinyvision", tinyvision.__version__, flush=True)
os.makedirs("out", exist_ok=True)
with open("out/losses.csv", "w", newline="") as target:
    csv.writer(target).writerows([("step", "loss"), *((at, 2.3 / (1 + at)) for at in range(60))])
for epoch in range(1, 4):
    open(f"out/epoch-{epoch}.pt", "wb").write(os.urandom(1_500_000))
    print(f"epoch {epoch} of 40, loss {2.3 / epoch:.3f}", flush=True)
while True:
    time.sleep(1)
"""
SWEPT = """import sys
from clusterweb_runtime import Run

run, rate = Run(total_steps=20), float(sys.argv[1])
for step in run.steps():
    run.report(loss=1 / (1 + rate * step))
"""
SWEEP = {
    "apiVersion": "v1",
    "name": "rates",
    "queue": "vision",
    "command": ["python", "swept.py", "{lr}"],
    "files": {"swept.py": SWEPT},
    "resources": {"gpus": 1, "cpus": 0.2, "memory": "256MiB"},
    "progress": {"total_steps": 20},
}
RATES = ("0.1", "0.2", "0.4")


@pytest.fixture(scope="module")
def shop() -> Iterator[tuple[Stack, Path]]:
    """A product whose index has one package, and the file that lets its build go on."""
    folder = Path(tempfile.mkdtemp(prefix="clusterweb-newcomer-"))
    folder.chmod(0o755)
    index = Index(folder / "packages")
    go_on = index.folder / "go-on"
    held = f"import os, time\nwhile not os.path.exists({str(go_on)!r}): time.sleep(0.2)"
    index.built("tinyvision", "1.2.0", build=held)
    product = Stack(folder / "var", **index.variables, JOB_READ_DIRS=str(index.folder))
    try:
        product.start()
        yield product, go_on
    finally:
        go_on.touch()
        product.destroy()
        shutil.rmtree(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The newcomer's folder."""
    root = tmp_path / "cifar-first"
    (root / "net").mkdir(parents=True)
    (root / "train.py").write_text(TRAIN)
    (root / "net" / "__init__.py").write_text("WIDTH = 16\n")
    (root / "requirements.txt").write_text("tinyvision==1.2.0\n")
    (root / "last.log").write_text("of yesterday")
    (root / ".gitignore").write_text("*.log\n")
    return root


def submitted(page: Page, folder: Path) -> str:
    """Choose the folder, look at what the form makes of it, submit; return the job's address."""
    page.locator("[data-folder-input]").set_input_files(folder)
    expect(page.locator("[data-folder-state]")).to_contain_text("Received")
    expect(page.locator("[name=name]")).to_have_value("cifar-first")
    expect(page.locator("[name=command]")).to_have_value("python train.py")
    expect(page.locator("[name=python]")).to_have_value("requirements.txt")
    picture(page, "newcomer-folder")
    page.select_option("[name=queue]", "vision")
    page.fill("[name=cpus]", "0.2")
    page.fill("[name=memory]", "512Mi")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/jobs/J-*")
    return page.url.partition("?")[0]


def test_first_ten_minutes(browser: Browser, shop: tuple[Stack, Path], folder: Path) -> None:
    """Each step by the pages alone, and each page says what happens and what it costs."""
    product, go_on = shop
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    watched = Watched(context, product, "member")
    address = submitted(watched.open("/jobs/new"), folder)
    page = watched.page

    expect(page.locator("#job-preparing")).to_contain_text("nothing is charged")
    expect(page.locator("#job-steps [aria-current=step]")).to_have_count(1)
    page.emulate_media(color_scheme="dark")
    picture(page, "newcomer-preparing")
    page.emulate_media(color_scheme="light")
    go_on.touch()

    expect(page.locator("#log-tail")).to_contain_text("epoch 3 of 40")
    expect(page.locator("h1")).to_contain_text("Running", ignore_case=True)
    page.goto(f"{address}/files?open=out&show=out/losses.csv")
    expect(page.locator("#files-table")).to_contain_text("epoch-3.pt")
    expect(page.locator(".text-view")).to_contain_text("step,loss")
    picture(page, "newcomer-files")
    a_secret(page, product)
    a_sweep(page, product)
    page.goto(address)
    expect(page.locator("#job-plain")).to_contain_text(
        "not reported", timeout=300_000
    )  # it must be silent for a minute
    picture(page, "newcomer-plain")

    context.close()
    assert not watched.errors


def a_secret(page: Page, product: Stack) -> None:
    """Add a secret by the page, which never shows its value again."""
    page.goto(f"{product.url}/secrets")
    page.click("[data-dialog=add]")
    page.fill("#add [name=name]", "wandb")
    page.fill("#add [name=value]", "0123456789abcdef0123")
    page.get_by_role("button", name="Add the secret").click()
    expect(page.locator("table")).to_contain_text("{secret: wandb}")
    expect(page.locator("body")).not_to_contain_text("0123456789abcdef0123")
    picture(page, "newcomer-secrets")


def a_sweep(page: Page, product: Stack) -> None:
    """Begin a grid of three by the page, and see all of them done."""
    page.goto(f"{product.url}/experiments/new")
    page.fill("[name=job]", json.dumps(SWEEP))
    page.fill("[name=space]", f"lr: {','.join(RATES)}\n")
    page.select_option("[name=sampler]", "grid")
    page.get_by_role("button", name="Begin").click()
    page.wait_for_url(lambda url: not url.endswith("/new"))
    member = product.client("member")
    jobs = [row["id"] for row in member.get("/api/v1/jobs")["results"] if row["name"].startswith("rates")]
    assert len(jobs) == len(RATES)
    for job in jobs:
        wait_for("a job of the sweep", lambda job=job: member.job(job)["state"] == "completed", within_s=120)  # type: ignore[misc]
    page.reload()
    for rate in RATES:
        expect(page.locator("main tr[data-open]", has=page.get_by_text(rate, exact=True))).to_contain_text("Completed")
    picture(page, "newcomer-sweep")
