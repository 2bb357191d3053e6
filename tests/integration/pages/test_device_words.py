"""On a cluster without GPUs no page calls a CPU slot a GPU: read by each role, and as its forms are answered."""

import re
from typing import Any

import pytest
from django.db import transaction
from django.test import Client

from scheduler.models import Server
from tests.integration.api.conftest import World
from tests.support.pages.forms import Form, forms_of
from tests.support.pages.reader import Page
from tests.support.pages.world import page_paths
from tests.support.rows.factories import job_make

SAYS_GPU = re.compile(r".{0,60}GPU.{0,40}")
MORE_PATHS = {
    "yaml": "/jobs/new?mode=yaml",
    "quota": "/queues/vision?tab=quota",
    "requests": "/queues/vision?tab=requests",
    "members": "/queues/vision?tab=members",
    "usage": "/queues/vision?tab=usage",
    "cluster by use": "/cluster?view=utilization",
    "cluster as a table": "/cluster?view=table",
    "search": "/search?q=gpu",
}
JOB = {"name": "train", "queue": "vision", "command": "true", "action": "check"}
REFUSED_JOBS = {
    "more than there are": {"gpus": "999999"},
    "more than is on a server": {"gpus": "64"},
    "no number": {"gpus": "many"},
    "elastic that starts once": {"gpus": "2", "min_gpus": "1", "launch": "job"},
    "several servers, started once": {"gpus": "2", "max_servers": "2", "launch": "job"},
    "bounds": {"gpus": "2", "min_gpus": "3", "max_gpus": "1"},
    "much memory": {"gpus": "1", "memory": "900TiB"},
    "a gang": {"gpus": "2", "max_servers": "2"},
    "a pasted script": {"action": "import", "foreign": "#!/bin/bash\n#SBATCH --gres=gpu:a100:2\nsrun python a.py\n"},
}


def html_of(answer: Any) -> str:  # what the test client returns has no public type
    """Return a page as it is sent; empty for a file."""
    if not answer.get("Content-Type", "").startswith("text/html"):
        return ""
    content: bytes = b"".join(answer) if answer.streaming else answer.content
    return content.decode()


def gpus_said(html: str) -> list[str]:
    """Return where a page says GPU: in its text, in what its attributes say, and in the words of its charts."""
    page = Page(html)
    return SAYS_GPU.findall("\n".join([" ".join(page.words), *page.charts]))


def answered(client: Client, form: Form, button: tuple[str, str]) -> str:
    """Return the page that follows a form that is sent as it stands, with a reason; the change is undone."""
    fields = {name: "more work" if name.endswith("reason") else value for name, value in form.fields.items()}
    with transaction.atomic():
        html = html_of(client.post(form.action, {**fields, **dict([button])}, follow=True))
        transaction.set_rollback(True)
    return html


@pytest.mark.parametrize("role", ["viewer", "member", "lead", "admin"])
def test_no_page_calls_a_cpu_slot_a_gpu(world: World, role: str) -> None:
    """Every page that the role can read, and what each of its forms is answered, once for each button."""
    client = world.client(role)
    found: dict[str, list[str]] = {}
    sent: set[tuple[str, tuple[str, str]]] = set()
    for name, path in (page_paths(world, role) | MORE_PATHS).items():
        html = html_of(client.get(path))
        found[name] = gpus_said(html)
        for form in forms_of(html, path=path):
            for button in form.buttons or [("", "")]:
                if (form.action, button) not in sent and "sign-out" not in form.action:
                    sent.add((form.action, button))
                    found[f"{form.action} {button}"] = gpus_said(answered(client, form, button))

    assert {name: said for name, said in found.items() if said} == {}


@pytest.mark.parametrize("fields", REFUSED_JOBS.values(), ids=REFUSED_JOBS)
def test_no_job_is_refused_or_foretold_with_gpus(world: World, fields: dict[str, str]) -> None:
    """Errors of the spec, what a pasted script lacks, and the card of the preview."""
    client = world.client("member")
    html = html_of(client.post("/jobs/new", {**JOB, **fields}))

    assert gpus_said(html) == []
    assert "CPU slot" in Page(html).text.replace("\u00a0", " ")


@pytest.mark.parametrize(("queue", "gpus"), [("vision", "999"), ("org", "1")])
def test_a_quota_that_cannot_be_saved_says_so_in_the_word_of_the_cluster(world: World, queue: str, gpus: str) -> None:
    """In its preview and at its field."""
    client, path = world.client("admin"), f"/queues/{queue}?tab=quota"
    form = next(form for form in forms_of(html_of(client.get(path)), path=path) if "quota_gpus" in form.fields)
    for doing in ("preview", "quota"):
        html = html_of(client.post(form.action, {**form.fields, "quota_gpus": gpus, "reason": "more", "do": doing}))

        assert gpus_said(html) == []
        said = Page(html).text.replace("\u00a0", " ")
        assert re.search(r"cluster has \d+ CPU slots|org has 16 CPU slots|so many CPU slots are given", said)


def test_reasons_that_people_typed_stay_as_they_are(world: World) -> None:
    """Only our own sentences are said in the cluster's word."""
    client = world.client("admin")
    client.post("/admin/pause", {"paused": "1", "version": "1", "reason": "a GPU smells of smoke"})

    assert "paused scheduling: a GPU smells of smoke" in Page(html_of(client.get("/admin"))).text


def test_a_toast_keeps_the_name_of_a_job(world: World) -> None:
    """What was done with it and what was refused, of one job and of several; the words of the core are reworded."""
    Server.objects.update(device_kind="cpu_slot")
    client, owner = world.client("member"), world.users["member"]
    job = job_make(world.vision, owner=owner, name="GPU.test")
    path, chosen = f"/jobs/J-{job.number}", {"job": f"J-{job.number}"}

    done = toasts(client.post(f"{path}/cancel", {"confirmed": "yes"}, follow=True))
    refused = toasts(client.get(f"{path}/suspend", follow=True))
    refused += toasts(client.post("/jobs/suspend", {**chosen, "confirmed": "yes"}, follow=True))

    assert [text.split(" is ")[0] for text in done] == ["GPU.test"]
    assert len(refused) == 2
    assert all(text.startswith("GPU.test") for text in refused), refused


def toasts(answer: Any) -> list[str]:
    """Return the words of the toasts on a page."""
    return re.findall(r'data-toast="\w+">.*?<span class="words">(.*?)</span>', html_of(answer), re.DOTALL)
