"""The submit form: the same spec as REST, errors at their fields, nothing typed is lost."""

import json
import re
from html import unescape
from itertools import takewhile
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from frontend.pages.jobs.submit.workloads import TEMPLATES
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Cluster, Job, Queue, Server
from scheduler.services.cluster.settings import cluster_row
from tests.integration.pages_jobs.conftest import Browser, Page, World, job_in
from tests.support.rows.factories import job_make, queue_make, server_make
from tests.support.suite.examples import tried

FIELDS: dict[str, Any] = {
    "mode": "form",
    "action": "submit",
    "name": "resnet",
    "queue": "vision",
    "command": 'python train.py --note "two words"',
    "gpus": "2",
    "preemptible": "on",
}
SPEC: dict[str, Any] = {
    "apiVersion": "v1",
    "name": "resnet",
    "queue": "vision",
    "command": ["python", "train.py", "--note", "two words"],
    "resources": {"gpus": 2},
}


def by_rest(browser: Browser, spec: dict[str, Any]) -> Job:
    """Submit a spec by the REST API with the same session."""
    answer = browser.client.post("/api/v1/jobs", json.dumps(spec), content_type="application/json")
    assert answer.status_code == 201, answer.content
    return Job.objects.get(pk=answer.json()["id"])


def by_form(browser: Browser, **changes: Any) -> Job:
    """Submit by the form and return the job whose page it leads to."""
    answer = browser.client.post("/jobs/new", {**FIELDS, **changes})
    assert answer.status_code == 302, answer.content.decode()
    return Job.objects.get(number=int(answer["Location"].rpartition("-")[2]))


def stored(job: Job) -> bytes:
    """Return the bytes of a stored spec."""
    return json.dumps(job.spec).encode()


def value_of(page: Page, name: str) -> str:
    """Return what an input holds."""
    (control,) = page.having(name=name)
    return control.get("value", "")


def test_form_and_rest_store_equal_bytes(world: World) -> None:
    """One spec, however it came."""
    browser = world.browser("member")

    assert stored(by_form(browser)) == stored(by_rest(browser, SPEC))


def test_every_field_of_the_form_reaches_the_spec_as_by_rest(world: World) -> None:
    """No field is lost or changed on the way."""
    browser = world.browser("member")
    form = by_form(
        browser,
        **{
            "cpus": "1.5",
            "memory": "512MiB",
            "disk": "3GiB",
            "total_steps": "600",
            "env": "SEED=1\r\nNOTE=a=b  c ",
            "priority": "70",
            "preemptible": "",
            "max_duration": "90m",
            "warn_before": "2m",
            "grace": "45s",
            "signal": "int",
            "retry": "0",
            "labels": "model=resnet",
            "file-0-name": "train.py",
            "file-0-text": "print('ä')\r\nprint(2)\r\n",
        },
    )
    rest = by_rest(
        browser,
        {
            **SPEC,
            "files": {"train.py": "print('ä')\nprint(2)\n"},
            "env": {"SEED": "1", "NOTE": "a=b  c "},
            "resources": {"gpus": 2, "cpus": 1.5, "memory": "512MiB", "disk": "3GiB"},
            "schedule": {"priority": 70, "preemptible": False, "max_duration": "90m", "warn_before": "2m"},
            "checkpoint": {"grace": "45s", "signal": "INT"},
            "retry": {"max": 0},
            "progress": {"total_steps": 600},
            "labels": {"model": "resnet"},
        },
    )

    assert stored(form) == stored(rest)


def test_preview_and_page_say_how_often_the_command_starts(world: World) -> None:
    """Said or not: before it is stored and afterwards the words are the same."""
    browser = world.browser("member")
    fields = {**FIELDS, "max_servers": "2"}
    implied = browser.send("/jobs/new", {**fields, "action": "check"})
    said = browser.send("/jobs/new", {**fields, "action": "check", "launch": "server"})
    job = by_form(browser, max_servers="2", launch="server")

    assert "once for every CPU slot, 2 processes" in implied.text
    assert "once on each of up to 2 servers" in said.text
    assert "once on each of up to 2 servers" in browser.open(f"/jobs/J-{job.number}").text
    assert job.spec["launch"] == {"per": "server"}


def test_what_cannot_start_so_is_an_error_at_its_field(world: World) -> None:
    """As is torchrun on several servers without a word on how often."""
    browser = world.browser("member")
    once = browser.send("/jobs/new", {**FIELDS, "max_servers": "2", "launch": "job"})
    silent = browser.send("/jobs/new", {**FIELDS, "max_servers": "2", "command": "torchrun train.py"})

    for page, words in ((once, 'set "Servers" to 1'), (silent, "Say how often torchrun is started")):
        assert words in page.text
        assert page.having(id="id_launch_error")
    assert not Job.objects.filter(name="resnet", spec__launch__per="job", spec__resources__max_servers=2).exists()


def test_yaml_in_the_form_and_by_rest_store_equal_bytes(world: World) -> None:
    """The editor takes what the API takes."""
    browser = world.browser("member")
    command = "command: [python, train.py, --note, two words]"
    text = f"apiVersion: v1\nname: resnet\nqueue: vision\n{command}\nresources: {{gpus: 2}}\n"
    form = by_form(browser, mode="yaml", spec=text.replace("\n", "\r\n"))
    rest = browser.client.post("/api/v1/jobs", text, content_type="application/yaml")

    assert stored(form) == stored(Job.objects.get(pk=rest.json()["id"]))


@settings(parent=tried(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00"), max_size=300))
def test_an_uploaded_file_is_stored_byte_for_byte(world: World, content: str) -> None:
    """Line ends of a file are the file's."""
    upload = SimpleUploadedFile("data.txt", content.encode())

    assert by_form(world.browser("member"), upload=upload).spec["files"] == {"data.txt": content}


def test_five_wrong_fields_mark_five_fields(world: World) -> None:
    """Each error stands at its field and in a list of links on top; nothing typed is lost."""
    wrong = {"name": "bad name!", "gpus": "0", "memory": "64", "priority": "500", "env": "LD_PRELOAD=x"}
    page = world.browser("member").send("/jobs/new", {**FIELDS, **wrong, "file-0-name": "a.py", "file-0-text": "x = 1"})
    marked = {control["name"]: control for control in page.having(aria_invalid="true")}

    assert set(marked) == {"name", "gpus", "memory", "priority", "env"}
    assert all(page.having(id=has["aria-describedby"].split()[-1]) for has in marked.values())
    assert {f"#{has['id']}" for has in marked.values()} <= {has.get("href") for _, has in page.tags}
    assert "Memory needs a unit: 64GiB." in page.text
    assert value_of(page, "name") == "bad name!"
    assert value_of(page, "gpus") == "0"
    assert value_of(page, "file-0-name") == "a.py"
    assert "python train.py --note" in page.html
    assert not Job.objects.exists()


@pytest.mark.parametrize(
    ("field", "typed", "said"),
    [
        ("total_steps", "1.5", "Steps in all must be a whole number. You asked for 1.5."),
        ("min_gpus", "x", "&quot;At least&quot; must be a whole number"),
        ("launch", "sideways", "&quot;Start its command&quot; must be job"),
        (
            "depends_on",
            "x",
            "&quot;Starts after&quot; must name a job by its number or id as its submit answered it, such as J-12",
        ),
        ("warn_before", "60s", "&quot;Warned before it&quot; needs a &quot;Longest run&quot;: it says how long before"),
    ],
)
def test_label_that_is_no_noun_stands_in_quotes(world: World, field: str, typed: str, said: str) -> None:
    """At the field and in the list above it the sentence reads as one; no key of a spec is left in it."""
    page = world.browser("member").send("/jobs/new", {**FIELDS, field: typed})

    found = re.findall(rf">{re.escape(said)}[^<]*<", page.html)
    assert len(found) == 2
    assert not any(re.search(r"[a-z]_[a-z]", sentence) for sentence in found)


def test_the_same_wrong_spec_gets_the_same_sentences_by_rest(world: World) -> None:
    """The form invents no rules of its own."""
    browser = world.browser("member")
    page = browser.send("/jobs/new", {**FIELDS, "name": "bad name!", "gpus": "99", "memory": "64"})
    answer = browser.client.post(
        "/api/v1/jobs",
        json.dumps({**SPEC, "name": "bad name!", "resources": {"gpus": 99, "memory": "64"}}),
        content_type="application/json",
    )

    assert {error["pointer"] for error in answer.json()["errors"]} == {"/name", "/resources/memory", "/resources/gpus"}
    # The page calls each field by its label, and has its own word for the devices of this cluster.
    assert all(error["detail"].partition(" ")[2] in page.text for error in answer.json()["errors"])


def test_more_than_any_server_has_is_refused_with_the_most(world: World) -> None:
    """The number that would do is named."""
    page = world.browser("member").send("/jobs/new", {**FIELDS, "gpus": "64"})

    assert "must be between 1 and 8 on one server. You asked for 64." in page.text
    assert [control["name"] for control in page.having(aria_invalid="true")] == ["gpus"]


def test_errors_in_yaml_name_their_lines_and_keep_the_text(world: World) -> None:
    """A long text is mended where it is wrong."""
    text = "apiVersion: v1\nnme: x\nqueue: vision\ncommand: [true]\nresources:\n  gpus: 0\n"
    page = world.browser("member").send("/jobs/new", {"mode": "yaml", "action": "submit", "spec": text})

    assert "Line 2: 'nme' is not a key of a job. Did you mean 'name'?" in page.text
    assert "Line 6: CPU slots must be between" in page.text
    assert "nme: x" in page.html


def test_each_error_in_yaml_is_told_once_in_the_order_of_the_lines(world: World) -> None:
    """Whatever order the checks run in, and without the name of the only field; the live card too."""
    text = "apiVersion: v1\nqueue: vision\nresources:\n  gpus: 0\n  cpus: -1\nnme: x\nname: a b\ncommand: [python]\n"
    browser = world.browser("member")
    page = browser.send("/jobs/new", {"mode": "yaml", "action": "submit", "spec": text})
    live = browser.send("/jobs/new", {"mode": "yaml", "action": "live", "spec": text})

    for shown in (page, live):
        lines = [int(line) for line in re.findall(r"Line (\d+):", shown.text)]
        assert lines == [4, 5, 6, 7]
        assert "Spec:" not in shown.text


@pytest.mark.parametrize("text", ["", "[", "a: &a [*a]", "- 1", "42", "\x00", "!!python/object:os.system x", "{" * 200])
def test_text_that_is_no_spec_is_an_error_and_never_a_crash(world: World, text: str) -> None:
    """Anything may be pasted."""
    browser = world.browser("member")
    for action in ("submit", "check", "form"):
        page = browser.send("/jobs/new", {"mode": "yaml", "action": action, "spec": text})

        assert page.status == 422
        assert page.having(name="spec", aria_invalid="true")
    assert not Job.objects.exists()


def test_check_stores_nothing_and_shows_what_would_be_stored(world: World) -> None:
    """A dry run: the same checks, no job."""
    page = world.browser("member").send("/jobs/new", {**FIELDS, "action": "check"})

    assert "It would start at once" in page.text
    assert "server-01 (2 CPU slots)" in page.text
    assert "max_duration: null" in page.text
    assert "curl http://testserver/api/v1/jobs" in page.text
    assert value_of(page, "name") == "resnet"
    assert not Job.objects.exists()


def rows_of(page: Page) -> dict[str, str]:
    """Return the names and values of the preview card."""
    card = page.html.partition('id="preview"')[2].partition("</dl>")[0]
    return dict(re.findall(r"<dt>(.*?)</dt><dd>(.*?)</dd>", unescape(card)))


def test_card_tells_what_the_servers_give_on_which_the_job_may_start(world: World) -> None:
    """A job that waits is told of those that meet the demand of its queue alone, one that starts of its own server."""
    browser = world.browser("member")
    Server.objects.filter(pk=world.server.pk).update(isolation="none")
    cluster_row()
    Cluster.objects.update(policy="fifo")  # no job makes room for another
    apart = server_make("server-02", gpus=2, isolation="user+landlock")
    job_make(world.speech, state=JobState.RUNNING, num_gpus=2, server=apart)
    starts = rows_of(browser.send("/jobs/new", {**FIELDS, "action": "check"}))
    Queue.objects.filter(name="vision").update(isolation="full")
    page = browser.send("/jobs/new", {**FIELDS, "action": "check"})

    assert starts["Where"].startswith("server-01")
    assert starts["Its queue's jobs start"] == "on every server that takes jobs"
    assert (starts["Own user"], starts["Reads"]) == ("no", "all that the user of the server's agent may")
    assert "It would wait" in page.text
    waits = rows_of(page)
    assert waits["Its queue's jobs start"] == (
        "only where they have a user of their own and open their own files alone: on 1 of 2 servers that are up"
    )
    assert waits["Reads"] == "the system, Python, its own files, and folders that an admin opened"
    assert waits["Writes"] == "its own folders, shared memory, and folders that an admin opened"
    assert waits["Own user"] == "yes, one for its queue"


def test_card_of_a_demand_that_no_server_meets_promises_nothing(world: World) -> None:
    """Where jobs would start is told, and that no such server is up; not what other servers would give."""
    Server.objects.update(isolation="user")
    Queue.objects.filter(name="vision").update(isolation="full")
    page = world.browser("member").send("/jobs/new", {**FIELDS, "action": "check"})
    rows = rows_of(page)

    assert "It would never start" in page.text
    assert rows["Its queue's jobs start"].endswith("open their own files alone: on no server that is up")
    assert not {"Reads", "Writes", "Own user"} & set(rows)


def test_card_beside_the_form_is_told_while_it_is_filled(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The card alone, never a failure: what would become of it, or what is wrong; nothing is stored or fetched."""
    monkeypatch.setattr("frontend.pages.jobs.submit.views.git_fetch", None)
    browser = world.browser("member")
    good = browser.send("/jobs/new", {**FIELDS, "action": "live"})
    bad = browser.send("/jobs/new", {**FIELDS, "action": "live", "memory": "many"})
    of_git = {"git": "https://git.example.org/team/vision.git", "git_commit": "a" * 40}
    unfetched = browser.send("/jobs/new", {**FIELDS, **of_git, "action": "live"})

    assert [page.status for page in (good, bad, unfetched)] == [200] * 3
    assert "It would start at once" in good.text
    assert "<form" not in good.text
    assert "Not ready yet" in bad.text
    assert "Memory" in bad.text
    assert "The folder of this commit is not here any more" in unfetched.text
    assert not Job.objects.exists()


def test_fields_turn_into_yaml_and_back(world: World) -> None:
    """Nothing is lost by changing one's mind, and nothing is stored by it."""
    browser = world.browser("member")
    files = {"file-0-name": "train.py", "file-0-text": "print(1)\n"}
    yaml_page = browser.send("/jobs/new", {**FIELDS, **files, "action": "yaml"})
    text = yaml_page.html.split("<textarea", 1)[1].split(">", 1)[1].split("</textarea>", 1)[0]
    text = text.replace("&#x27;", "'").replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">")
    form_page = browser.send("/jobs/new", {"mode": "yaml", "action": "form", "spec": text})

    assert value_of(form_page, "name") == "resnet"
    assert value_of(form_page, "gpus") == "2"
    assert value_of(form_page, "file-0-name") == "train.py"
    assert not Job.objects.exists()


def test_files_are_read_once_named_once_and_text(world: World) -> None:
    """What cannot be laid into the directory is said at the files."""
    browser = world.browser("member")
    twice = {"file-0-name": "a.py", "file-0-text": "1", "file-1-name": "a.py", "file-1-text": "2"}
    nameless = {"file-0-name": "", "file-0-text": "print(1)"}
    binary = {"upload": SimpleUploadedFile("model.bin", b"\xff\xfe\x00\x01")}
    path = {"file-0-name": "../a.py", "file-0-text": "1"}

    assert "a.py is there twice." in browser.send("/jobs/new", {**FIELDS, **twice}).text
    assert "A file has no name." in browser.send("/jobs/new", {**FIELDS, **nameless}).text
    assert "model.bin is not UTF-8 text." in browser.send("/jobs/new", {**FIELDS, **binary}).text
    assert "cannot be a file name" in browser.send("/jobs/new", {**FIELDS, **path}).text
    assert not Job.objects.exists()


def test_an_uploaded_file_survives_an_error_elsewhere(world: World) -> None:
    """A browser forgets uploads; the form does not, line ends included."""
    browser = world.browser("member")
    upload = SimpleUploadedFile("data.csv", b"a\r\nb\r\n")
    page = browser.send("/jobs/new", {**FIELDS, "gpus": "0", "upload": upload})
    kept = {name: value_of(page, name) for name in ("file-0-name", "file-0-kept")}
    job = by_form(browser, **kept)

    assert job.spec["files"] == {"data.csv": "a\r\nb\r\n"}


def test_clone_opens_the_form_filled_and_gives_the_same_spec(world: World) -> None:
    """A copy is a copy."""
    browser = world.browser("member")
    source = by_form(browser, env="A=1", total_steps="90", **{"file-0-name": "a.py", "file-0-text": "1\n"})
    page = browser.open("/jobs/new", clone=f"J-{source.number}")
    sent = {has["name"]: has.get("value", "") for tag, has in page.tags if tag == "input" and has.get("name")}
    areas = {"command": FIELDS["command"], "env": "A=1", "file-0-text": "1\n"}
    sent = {name: value for name, value in sent.items() if name not in ("action", "job", "upload")}
    clone = by_form(browser, **{**sent, **areas, "preemptible": "on"})

    assert "Filled from resnet" in page.text
    assert clone.pk != source.pk
    assert stored(clone) == stored(source)


def test_a_job_that_one_may_not_see_cannot_be_cloned(world: World) -> None:
    """A spec is as guarded as its job."""
    job = job_in(world, JobState.RUNNING, name="canary-job")
    page = world.browser("outsider").open("/jobs/new", clone=f"J-{job.number}")

    assert page.status == 404
    assert "canary-job" not in page.html


@pytest.mark.parametrize("key", TEMPLATES)
def test_a_template_fills_the_form(world: World, key: str) -> None:
    """Five workloads ship with the product; each is one click."""
    page = world.browser("member").open("/jobs/new", template=key)

    assert value_of(page, "name") == f"{key}-{TEMPLATES[key].steps}"
    assert f"agents.workloads.{key} --steps" in page.html
    assert "vision" in page.text


def test_pressing_submit_twice_makes_one_job(world: World) -> None:
    """A slow network and an impatient finger."""
    browser = world.browser("member")
    once = value_of(browser.open("/jobs/new"), "once")
    first = by_form(browser, once=once)
    again = by_form(browser, once=once)
    other = by_form(browser, once=once, name="another")

    assert first.pk == again.pk
    assert other.pk != first.pk
    assert Job.objects.count() == 2


@pytest.mark.parametrize("role", ["viewer", "nobody"])
def test_who_may_submit_nowhere_is_told_how_to(world: World, role: str) -> None:
    """No form that could not be sent."""
    page = world.browser(role).open("/jobs/new")

    assert "You may submit to no queue yet." in page.text
    assert not page.having(name="command")


@pytest.mark.parametrize(("role", "queue"), [("viewer", "vision"), ("outsider", "vision"), ("nobody", "vision")])
def test_a_form_for_a_queue_that_is_not_ones_own_is_refused(world: World, role: str, queue: str) -> None:
    """A viewer is told so; to others the queue does not exist."""
    browser = world.browser(role)
    page = browser.send("/jobs/new", {**FIELDS, "queue": queue})

    assert page.status == 422
    assert not Job.objects.exists()


def test_queues_on_offer_are_those_one_may_submit_to(world: World) -> None:
    """Leaves in which one is a member, and no others."""
    queue_make("vision/detection", parent=Queue.objects.get(name="vision"))
    tags = world.browser("member").open("/jobs/new").tags
    first = next(at for at, (_, has) in enumerate(tags) if has.get("name") == "queue") + 1
    options = {has["value"] for _, has in takewhile(lambda found: found[0] == "option", tags[first:])}

    assert options == {"vision/detection"}


def test_the_form_has_no_script_of_its_own_and_works_without(world: World) -> None:
    """Every part of it is sent by the browser alone."""
    page = world.browser("member").open("/jobs/new")
    buttons = [has for tag, has in page.tags if tag == "button" and has.get("name") == "action"]

    assert {has["value"] for has in buttons} == {"submit", "check", "form", "yaml", "import", "template"}
    assert not [has for _, has in page.tags if any(name.startswith("on") for name in has)]


def test_signs_of_a_shell_in_the_command_are_warned_of_with_a_way_out(world: World) -> None:
    """Beside the preview, while it is filled, and after it is stored; YAML has no line to put the fix into."""
    browser = world.browser("member")
    asked = {**FIELDS, "command": "cd src && python train.py"}
    told = "No shell reads the command: `&&` is an argument of cd as written."
    for action in ("check", "live"):
        page = browser.send("/jobs/new", {**asked, "action": action})
        assert told in page.text
        assert page.having(data_put_command="bash -c 'cd src && python train.py'")
    yaml = "apiVersion: v1\nname: a\nqueue: vision\ncommand: [cd, src, '&&', python, train.py]\n"
    page = browser.send("/jobs/new", {"mode": "yaml", "action": "check", "spec": yaml})
    stored = browser.send("/jobs/new", asked)

    assert told in page.text
    assert not page.having(data_put_command="bash -c 'cd src && python train.py'")
    assert told in stored.text
    assert "No shell reads" not in browser.send("/jobs/new", {**FIELDS, "action": "check"}).text


def test_errors_of_the_command_speak_of_a_line(world: World) -> None:
    """The field holds one, whatever the spec holds."""
    browser = world.browser("member")
    empty = browser.send("/jobs/new", {**FIELDS, "command": " "})
    quoted = browser.send("/jobs/new", {**FIELDS, "command": "'python train.py'"})

    assert "a program and its arguments, such as python train.py." in empty.text
    assert "The whole line is in quotes" in quoted.text
    assert "list of words" not in empty.text + quoted.text
    assert "[" not in quoted.text.partition("The whole line")[2][:80]
