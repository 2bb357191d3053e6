"""A folder on the form: chosen, sent, sent again, as a zip, and without scripts; the same digest as by the command."""

import io
import zipfile
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from agents.protocol.code import CodeLimits, CodeManifest
from clusterweb.client.folders.folder import read_folder
from tests.browser.conftest import Watched, sign_in
from tests.support.e2e.stack import Stack

SIZES = [(1440, 900, "light"), (1440, 900, "dark"), (390, 844, "light"), (390, 844, "dark")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A package with data, and much that stays here."""
    root = tmp_path / "vision train"
    for name, text in {
        "train.py": "import net\nif __name__ == '__main__':\n    print('trained')\n",
        "net/__init__.py": "# package\n",
        "net/model.py": "SIZE = 1\n",
        "net/.gitignore": "/cache/\n!keep.log\n",
        "net/cache/a": "x",
        "net/keep.log": "kept",
        "net/drop.LOG": "another case",
        "data/train.bin": "0" * 5_000,
        "data/raw/x": "x",
        "wandb/run": "x",
        "last.log": "x",
        ".git/config": "x",
        "__pycache__/a.pyc": "x",
        "env/pyvenv.cfg": "x",
        "env/lib": "x",
        ".gitignore": "/data/\nwandb/\n*.log\n",
        ".clusterwebignore": "!/data/\nraw\n",
    }.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n# {tmp_path.name}\n")  # no other test has sent it
    return root


def digest_of(root: Path) -> str:
    """Return the manifest as the command would send it."""
    return f"sha256:{CodeManifest.read(read_folder(root).manifest(), CodeLimits()).digest}"


def choose(page: Page, root: Path) -> None:
    """Choose a folder, and wait until it has arrived: its facts are hidden at once and shown as the last thing."""
    page.locator("[data-folder-input]").set_input_files(root)
    expect(page.locator("[data-folder-facts]")).to_be_visible()
    expect(page.locator("[data-folder-state]")).to_contain_text("Received")


def test_folder_is_chosen_sent_and_submitted(member: Watched, folder: Path) -> None:
    """What git ignores stays, what was sent is not sent again, guesses fill empty fields alone, and the job has it."""
    page = member.open("/jobs/new")
    choose(page, folder)
    first = page.locator("[data-fact=sent]").inner_text()
    expect(page.locator("[data-fact=guess]")).to_have_text("Starts with train.py, guessed")
    page.fill("[name=command]", "python train.py --mine")
    choose(page, folder)

    assert first.startswith("9 files sent")
    assert page.locator("[data-fact=sent]").inner_text() == "Nothing to send"
    assert page.locator("[data-fact=ignored-names]").get_attribute("title") == "\n".join(
        [".git/", "__pycache__/", "data/raw/", "env/", "last.log", "net/cache/", "wandb/"]
    )
    assert page.input_value("[name=code]") == digest_of(folder)
    assert page.input_value("[name=name]") == "vision-train"
    assert page.input_value("[name=command]") == "python train.py --mine"
    page.select_option("[name=queue]", "vision")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/jobs/J-*")
    page.goto(f"{page.url.partition('?')[0]}/spec")
    expect(page.locator("body")).to_contain_text(digest_of(folder))


def test_change_sends_the_change_alone(member: Watched, folder: Path) -> None:
    """One file of many."""
    page = member.open("/jobs/new")
    choose(page, folder)
    (folder / "net/model.py").write_text("SIZE = 12345\n")
    choose(page, folder)

    assert page.locator("[data-fact=sent]").inner_text() == "1 file sent, 13 B"
    assert page.input_value("[name=code]") == digest_of(folder)
    page.get_by_role("button", name="Without a folder").click()
    assert page.input_value("[name=code]") == ""
    assert page.input_value("[name=command]") == ""  # it was guessed


def test_packages_are_guessed_and_a_lock_comes_first(member: Watched, folder: Path) -> None:
    """The file on top that names them; none is said; what is typed stays."""
    page = member.open("/jobs/new")
    choose(page, folder)
    expect(page.locator("[data-fact=packages]")).to_have_text("No requirements.txt or uv.lock")
    (folder / "requirements.txt").write_text("tiny==1.0\n")
    choose(page, folder)
    expect(page.locator("[name=python]")).to_have_value("requirements.txt")
    (folder / "uv.lock").write_text("version = 1\n")
    choose(page, folder)
    expect(page.locator("[name=python]")).to_have_value("requirements.txt")  # a lock is read with pyproject.toml
    (folder / "pyproject.toml").write_text("[project]\n")
    choose(page, folder)
    expect(page.locator("[name=python]")).to_have_value("uv.lock")
    expect(page.locator("[data-fact=packages-why]")).to_contain_text("requirements.txt is not read")
    page.fill("[name=python]", "/opt/venv")
    choose(page, folder)

    assert page.input_value("[name=python]") == "/opt/venv"


def test_job_yaml_of_a_folder_fills_the_form(member: Watched, folder: Path) -> None:
    """What is typed stays, nothing is guessed, a wrong one is told, and without the folder the form is as before."""
    (folder / "job.yaml").write_text(
        "name: packed\nqueue: vision\ncommand: [python, train.py, --lr, '1']\nresources: {gpus: 2}\nenv: {A: '1'}\n"
        "files: {a.txt: one, b.txt: two}\n"
    )
    page = member.open("/jobs/new")
    page.fill("[name=name]", "mine")
    choose(page, folder)
    expect(page.locator("[data-folder-error]")).to_be_hidden()
    expect(page.locator("[data-folder-hint]")).to_contain_text("Filled from job.yaml of the folder")
    expect(page.locator("[data-folder-hint]")).to_contain_text("Kept as you wrote it: Name.")
    expect(page.locator("[data-fact=guess]")).to_have_text("Its job file says what runs")
    names = ("name", "queue", "command", "gpus", "env", "file-0-name", "file-1-text")
    values = ["mine", "vision", "python train.py --lr 1", "2", "A=1", "a.txt", "two"]
    assert [page.input_value(f"[name={name}]") for name in names] == values
    expect(page.locator("#preview")).to_contain_text("It would")
    page.get_by_role("button", name="Without a folder").click()
    assert [page.input_value(f"[name={name}]") for name in names[:5]] == [
        "mine",
        "vision",
        "",
        "1",
        "",
    ]  # her only queue
    (folder / "job.yaml").write_text("nam: packed\ncommand: [python, train.py]\n")
    choose(page, folder)
    expect(page.locator("[data-folder-error]")).to_contain_text("Line 1: 'nam' is not a key of a job.")
    assert "422" in member.errors.pop()


def test_folder_that_is_too_large_is_told_before_it_is_sent(member: Watched, folder: Path) -> None:
    """The part that takes the room, and what to do."""
    page = member.open("/jobs/new")
    page.evaluate("document.querySelector('[data-folder]').dataset.mostBytes = '1000'")
    page.locator("[data-folder-input]").set_input_files(folder)

    expect(page.locator("[data-folder-error]")).to_contain_text("data/ is 4.9 KiB of 5.")
    expect(page.locator("[data-folder-error]")).to_contain_text("Add it to .gitignore")


def zip_of(files: dict[str, str]) -> bytes:
    """Return a zip."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return target.getvalue()


def test_zip_is_unpacked_and_a_hostile_one_refused_with_its_name(browser: Browser, demo: Stack) -> None:
    """The same box takes an archive; what is wrong stands at the box."""
    context = browser.new_context()
    page = context.new_page()
    sign_in(page, demo, "member")
    page.goto(f"{demo.url}/jobs/new")
    upload = page.locator("[name=archive]")
    upload.set_input_files({"name": "x.zip", "mimeType": "application/zip", "buffer": zip_of({"../evil.py": "x"})})
    expect(page.locator("[data-folder-error]")).to_contain_text("../evil.py leads out of the folder")
    upload.set_input_files({"name": "pack.zip", "mimeType": "application/zip", "buffer": zip_of({"pack/a.py": "x"})})

    expect(page.locator("[data-folder-name]")).to_contain_text("pack.zip 1 file, 1 B")
    expect(page.locator("[data-folder-error]")).to_be_hidden()
    context.close()


def test_without_scripts_a_zip_goes_with_the_form(browser: Browser, demo: Stack) -> None:
    """Preview keeps the folder, Submit stores it, and a bad archive is an error at its field."""
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    sign_in(page, demo, "member")
    page.goto(f"{demo.url}/jobs/new")
    page.fill("[name=name]", "no-scripts")
    page.fill("[name=command]", "python a.py")
    page.select_option("[name=queue]", "vision")
    page.locator("[name=archive]").set_input_files(
        {"name": "x.zip", "mimeType": "application/zip", "buffer": b"no zip"}
    )
    page.get_by_role("button", name="Preview").click()
    expect(page.locator(".error-list")).to_contain_text("neither a zip nor a tar")
    page.locator("[name=archive]").set_input_files(
        {"name": "x.zip", "mimeType": "application/zip", "buffer": zip_of({"a.py": "print(1)"})}
    )
    page.get_by_role("button", name="Preview").click()
    expect(page.locator("[data-folder-name]")).to_have_text("1 file, 8\N{NO-BREAK SPACE}B")
    page.get_by_role("button", name="Submit", exact=True).click()
    page.wait_for_url("**/jobs/J-*")
    context.close()


@pytest.mark.parametrize(("width", "height", "theme"), SIZES)
def test_box_fits_the_page(browser: Browser, demo: Stack, folder: Path, width: int, height: int, theme: str) -> None:
    """Nothing is cut off at any width, empty and filled."""
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=theme)  # type: ignore[arg-type]  # one of two words
    page = context.new_page()
    sign_in(page, demo, "member")
    page.goto(f"{demo.url}/jobs/new")
    for state in ("empty", "filled"):
        if state == "filled":
            choose(page, folder)
            expect(page.locator("[data-fact=guess]")).not_to_be_empty()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()
