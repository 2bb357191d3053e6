"""The job.yaml of a folder that is sent with the form fills it."""

import io
import zipfile

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from scheduler.models import Job
from scheduler.services.retention.policy import SENT_FOLDERS
from tests.integration.pages_jobs.conftest import World
from tests.integration.pages_jobs.test_form import FIELDS, value_of

pytestmark = pytest.mark.usefixtures("processes")  # an archive is unpacked by one of its own


def zip_of(**files: str) -> SimpleUploadedFile:
    """Return a zip to upload; ``_yaml`` and ``_py`` in a name are endings."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        for name, text in files.items():
            archive.writestr(name.replace("_yaml", ".yaml").replace("_py", ".py"), text)
    return SimpleUploadedFile("pack.zip", target.getvalue())


IN_FOLDER = "apiVersion: v1\nname: packed\nqueue: vision\ncommand: [python, main.py, a b]\nresources: {gpus: 2}\n"


def test_dry_run_says_that_a_sent_folder_stays(world: World) -> None:
    """No job is stored, but what was sent for it is; without a folder nothing is."""
    browser = world.browser("member")
    asked = {**FIELDS, "command": "python main.py", "action": "check"}
    sent, without = (browser.send("/jobs/new", one) for one in ({**asked, "archive": zip_of(main_py="1\n")}, asked))

    assert f"No job is stored; the folder stays on the server for {SENT_FOLDERS.days} days." in sent.text
    assert "Nothing is stored" not in sent.text
    assert "Nothing is stored yet." in without.text
    assert not Job.objects.exists()


def test_job_yaml_of_a_sent_folder_fills_the_form(world: World) -> None:
    """What was typed stays and is named; nothing is submitted until the form is sent once more."""
    browser = world.browser("member")
    empty = {"mode": "form", "gpus": "1", "preemptible": "on"}
    files = {"main_py": "print(1)\n", "job_yaml": IN_FOLDER + "labels: {model: tiny}\nfiles: {a.txt: hello}\n"}
    page = browser.send("/jobs/new", {**empty, "action": "submit", "name": "mine", "archive": zip_of(**files)})
    sent = {name: value_of(page, name) for name in ("name", "gpus", "code", "once", "file-0-name")}
    same = browser.send("/jobs/new", {**empty, "action": "folder", "typed": "", "name": "old", "code": sent["code"]})

    assert "Filled from job.yaml of the folder, as clusterweb submit does. Kept as you wrote it: Name." in page.text
    assert sent == {**sent, "name": "mine", "gpus": "2", "file-0-name": "a.txt"}
    assert "python main.py 'a b'" in page.text
    assert "model=tiny" in page.text
    assert not Job.objects.filter(name="mine").exists()
    assert value_of(same, "name") == "packed"
    assert "Kept as you wrote" not in same.text


def test_box_that_was_unticked_stays_so(world: World) -> None:
    """A box without a tick sends nothing; a job that must not be stopped does not become one that may."""
    browser = world.browser("member")
    archive = zip_of(main_py="print(1)\n", job_yaml=IN_FOLDER)
    form = {"mode": "form", "gpus": "1", "action": "folder", "typed": "preemptible"}
    page = browser.send("/jobs/new", {**form, "archive": archive})

    assert value_of(page, "name") == "packed"
    assert [box.get("checked") for box in page.having(name="preemptible")] == [None]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (IN_FOLDER + "resource: {gpus: 2}\n", "Line 6: 'resource' is not a key of a job. Did you mean 'resources'?"),
        (IN_FOLDER + "code: {dir: src}\n", "It sends src alone, by its code: choose that folder"),
        (IN_FOLDER + "env: {A: 'b\n\n  c'}\n", "It has a value of several lines"),
        ("name: [\n", "job.yaml of the folder cannot be read. Line 2"),
        ("hello\n", "is no mapping of keys to values."),
    ],
)
def test_job_yaml_that_cannot_fill_the_form_is_told_why(world: World, text: str, told: str) -> None:
    """At the folder; the form stays as it is, and the folder is kept."""
    archive = zip_of(main_py="print(1)\n", job_yaml=text)
    page = world.browser("member").send("/jobs/new", {**FIELDS, "command": "python main.py", "archive": archive})

    assert told in page.text
    assert value_of(page, "code").startswith("sha256:")
    assert value_of(page, "name") == "resnet"
