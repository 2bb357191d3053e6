"""``clusterweb submit`` of a file with many jobs: which are stored, which are not, and how it goes on."""

import json
from io import BytesIO
from pathlib import Path
from typing import Any, ClassVar

import pytest
from django.db.models import F

from clusterweb.cli.main import main
from clusterweb.client import many
from clusterweb.client.errors import CommandError
from clusterweb.client.many import split_specs
from clusterweb.client.rest import Rest
from scheduler.api.http.errors import FirstStillRuns
from scheduler.core.model.errors import Conflict
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job
from tests.integration.api.conftest import World
from tests.integration.api.jobs.conftest import SPEC, sign_in


def document(name: str, *, gpus: int = 1) -> str:
    """Return one YAML document."""
    return f"---\n{SPEC.replace('name: train', f'name: {name}')}resources: {{gpus: {gpus}}}\n"


def names() -> list[str]:
    """Return the jobs of these tests, in the order in which they are stored."""
    return [*Job.objects.filter(name__startswith="m-").order_by("number").values_list("name", flat=True)]


def test_several_documents_are_as_many_jobs_by_one_request(
    shop: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In their order; a line each on standard output, and the sum beside it. With -o json one object."""
    posted: list[str] = []
    post = Rest.post

    def noted(self: Rest, path: str, *a: Any, **k: Any) -> Any:
        posted.append(path)
        return post(self, path, *a, **k)

    monkeypatch.setattr(Rest, "post", noted)
    Path("many.yaml").write_text("# three\n" + "".join(document(f"m-{n}") for n in range(3)) + "---\n# the end\n")

    assert main(["submit", "many.yaml"]) == 0
    said = capsys.readouterr()
    assert [line.split()[2] for line in said.out.splitlines()] == names() == ["m-0", "m-1", "m-2"]
    assert posted == ["jobs/bulk"]
    numbers = [line.split()[0] for line in said.out.splitlines()]
    key, told = said.err.splitlines()
    assert key.startswith("Its key, should it break off: ")
    assert told == f"3 of 3 are submitted, {numbers[0]} to {numbers[2]}."

    assert main(["submit", "many.yaml", "-o", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [job["name"] for job in told["results"]] == ["m-0", "m-1", "m-2"]
    assert (told["accepted"], told["specs"], told["errors"], told["problem"]) == (3, 3, [], "")


def test_json_lines_come_by_standard_input(
    shop: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a script prints is a job for each line."""
    spec = {"apiVersion": "v1", "queue": "vision", "command": ["true"]}
    text = "".join(json.dumps({**spec, "name": f"m-{n}"}) + "\n" for n in range(2))
    monkeypatch.setattr("clusterweb.cli.asked.spec_bytes", lambda name: text.encode())

    assert main(["submit", "-"]) == 0
    assert names() == ["m-0", "m-1"]


def test_a_bad_job_is_named_and_what_is_stored_is_said(
    shop: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The request before it stays, its own stores nothing, the next is not sent; corrected, the rest is sent alone."""
    monkeypatch.setattr(many, "MOST_JOBS", 2)
    texts = [document(f"m-{n}") for n in range(7)]
    Path("many.yaml").write_text("".join([*texts[:3], document("m-3", gpus=0), *texts[4:]]))

    assert main(["submit", "many.yaml", "--key", "k"]) == 1
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 2
    assert "  spec 4 /resources/gpus: " in said.err
    assert "2 of 7 are submitted, J-" in said.err
    assert "Nothing of specs 3 to 4 is stored.\nNot sent: specs 5 to 7.\n" in said.err
    assert "clusterweb submit many.yaml --key k" in said.err
    assert names() == ["m-0", "m-1"]

    Path("many.yaml").write_text("".join(texts))
    assert main(["submit", "many.yaml", "--key", "k"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 7
    assert names() == [f"m-{n}" for n in range(7)]


def test_text_that_is_no_yaml_is_named_by_its_position(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """With the line in it; nothing is stored."""
    Path("many.yaml").write_text(document("m-0") + "---\nname: [\n" + document("m-2"))

    assert main(["submit", "many.yaml", "-o", "json"]) == 1
    [error] = json.loads(capsys.readouterr().out)["errors"]
    assert (error["spec"], error["pointer"]) == (2, "/")
    assert "Line " in error["detail"]
    assert names() == []


def test_without_an_answer_it_says_what_is_not_known(
    shop: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The jobs were stored and the answer was lost: the command that it prints stores none of them twice."""
    monkeypatch.setattr(many, "MOST_JOBS", 2)
    Path("many.yaml").write_text("".join(document(f"m-{n}") for n in range(4)))
    post = Rest.post
    calls: list[str] = []

    def lose(self: Rest, path: str, *a: Any, **k: Any) -> Any:
        answer = post(self, path, *a, **k)
        calls.append(path)
        if len(calls) == 2:
            raise CommandError("The connection was lost.")
        return answer

    monkeypatch.setattr(Rest, "post", lose)
    assert main(["submit", "many.yaml"]) == 1
    said = capsys.readouterr().err
    assert "Whether specs 3 to 4 got there is not known." in said
    again = said.splitlines()[-1].partition(": clusterweb ")[2].split()
    assert main(again) == 0
    assert names() == ["m-0", "m-1", "m-2", "m-3"]


def test_a_key_of_other_specs_stores_nothing_and_says_so(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """What was stored under it stays, and is not denied; to send the same once more would not help."""
    Path("many.yaml").write_text(document("m-0") + document("m-1"))
    assert main(["submit", "many.yaml", "--key", "k"]) == 0
    Path("many.yaml").write_text(document("m-0") + document("m-2"))
    capsys.readouterr()

    assert main(["submit", "many.yaml", "--key", "k"]) == 1
    assert capsys.readouterr().err.splitlines() == [
        "Under this key, specs from 1 on were stored before, in another version.",
        "Nothing new of specs 1 to 2 is stored.",
        "Use another --key for new jobs, without the specs that are stored; clusterweb ls shows them.",
    ]
    assert names() == ["m-0", "m-1"]


def test_one_job_has_its_key_too(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    """A script that repeats its submit stores it once, with files too; another spec is refused."""
    Path("one.yaml").write_text(document("m-0"))
    for more in ([], ["--file", "train.py"]):
        key = f"k {len(more)}"
        assert [main(["submit", "one.yaml", "--key", key, *more]) for _ in range(2)] == [0, 0]
        first, second = capsys.readouterr().out.splitlines()
        assert first == second
    assert names() == ["m-0", "m-0"]

    Path("one.yaml").write_text(document("m-1"))
    assert main(["submit", "one.yaml", "--key", "k 0"]) == 1
    assert "With --key k 0 another spec was submitted before. Nothing new is stored." in capsys.readouterr().err
    assert main(["submit", "one.yaml", "--key", "a\nb"]) == 2
    assert names() == ["m-0", "m-0"]


def test_a_text_that_holds_one_job_is_sent_as_that_job(shop: World) -> None:
    """A list of one, and a document with a marker after it, from a file as from a folder."""
    spec = {"apiVersion": "v1", "queue": "vision", "command": ["true"]}
    Path("one.json").write_text(json.dumps([{**spec, "name": "m-list"}]))
    Path("one.yaml").write_text(document("m-closed") + "---\n")
    Path("folder").mkdir()
    Path("folder/train.py").write_text("print('hello')\n")
    Path("folder/job.yaml").write_text("%YAML 1.2\n" + document("m-folder") + "---\n")

    assert [main(["submit", name]) for name in ("one.json", "one.yaml", "folder")] == [0, 0, 0]
    assert names() == ["m-list", "m-closed", "m-folder"]


@pytest.mark.parametrize("number", [0, 1])
def test_after_ctrl_c_it_says_how_far_it_came(
    shop: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """Within the request with this number: with the key, which stood there before the first request."""
    monkeypatch.setattr(many, "MOST_JOBS", 2)
    Path("many.yaml").write_text("".join(document(f"m-{n}") for n in range(6)))
    post, told = Rest.post, []

    def interrupt(self: Rest, path: str, *a: Any, **k: Any) -> Any:
        told.append(capsys.readouterr().err)
        if len(told) == number + 1:
            raise KeyboardInterrupt
        return post(self, path, *a, **k)

    with monkeypatch.context() as patch:
        patch.setattr(Rest, "post", interrupt)
        assert main(["submit", "many.yaml"]) == 130
    said = capsys.readouterr()
    key = told[0].removeprefix("Its key, should it break off: ").strip()
    assert len(said.out.splitlines()) == 2 * number
    assert said.err.startswith(f"Interrupted.\n{2 * number} of 6 are submitted")
    assert f"Whether specs {2 * number + 1} to {2 * number + 2} got there is not known." in said.err
    assert f"Not sent: specs {2 * number + 3} to 6." in said.err
    assert f"clusterweb submit many.yaml --key {key}\n" in said.err
    assert main(["submit", "many.yaml", "--key", key]) == 0
    assert names() == [f"m-{n}" for n in range(6)]


@pytest.mark.parametrize("page", [b"<html>Sign in</html>", b'{"ok": true}', b"[]"])
def test_an_answer_of_something_else_is_none(
    shop: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, page: bytes
) -> None:
    """A proxy answers 200 with its own page: what came of the request is not known."""
    Path("many.yaml").write_text(document("m-0") + document("m-1"))

    class Page(BytesIO):
        headers: ClassVar[dict[str, str]] = {}

    monkeypatch.setattr(Rest, "_open", lambda *a, **k: Page(page))
    assert main(["submit", "many.yaml", "--key", "k"]) == 1
    said = capsys.readouterr().err
    assert "Does a proxy stand before Clusterweb?\n0 of 2 are submitted." in said
    assert "Whether specs 1 to 2 got there is not known." in said
    assert "clusterweb submit many.yaml --key k" in said


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (FirstStillRuns(), "Whether specs 1 to 2 got there is not known."),
        (Conflict("A part of the folder was removed meanwhile."), "Nothing of specs 1 to 2 is stored."),
    ],
)
def test_only_a_request_that_still_runs_may_have_stored_something(
    shop: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    """Both are answered 409."""
    Path("many.yaml").write_text(document("m-0") + document("m-1"))

    def refuse(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr("scheduler.api.jobs.actions.once", refuse)
    assert main(["submit", "many.yaml"]) == 1
    assert told in capsys.readouterr().err.splitlines()


def test_arrays_are_listed(shop: World, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """With their jobs by state, newest first; -o json as by REST; who sees none is told so."""
    Path("array.yaml").write_text(SPEC + "array: 0-2\n")
    assert main(["submit", "array.yaml"]) == 0
    key = capsys.readouterr().out.split()[0]
    of_array = Job.objects.filter(array_number=int(key.removeprefix("A-")))
    of_array.filter(array_index=1).update(state=JobState.FAILED, ended_at=F("submitted_at"), wait_reason="")
    of_array.filter(array_index=2).update(state=JobState.PARKED)  # at work, as the limit of an array counts it

    assert main(["arrays"]) == 0
    heads, row, *_ = capsys.readouterr().out.splitlines()
    assert heads.split()[4:] == ["JOBS", "WAITING", "AT", "WORK", "COMPLETED", "FAILED", "CANCELLED", "AGE"]
    assert row.split()[:9] == [key, "train", "vision", "mia", "3", "1", "1", "0", "1"]
    assert main(["arrays", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["states"] == {"failed": 1, "parked": 1, "queued": 1}
    assert main(["arrays", "--limit", "0"]) == 2
    sign_in(shop, "outsider", monkeypatch)
    capsys.readouterr()
    assert main(["arrays"]) == 0
    assert capsys.readouterr().out == "There is no array.\n"


@pytest.mark.parametrize("flags", [["--dry-run"], ["--wait"], ["--file", "train.py"]])
def test_what_is_of_one_job_is_refused(shop: World, capsys: pytest.CaptureFixture[str], flags: list[str]) -> None:
    """As is a folder that one of them names."""
    Path("many.yaml").write_text(document("m-0") + document("m-1"))
    assert main(["submit", "many.yaml", *flags]) == 2
    assert "holds 2" in capsys.readouterr().err
    Path("many.yaml").write_text(document("m-0") + document("m-1") + "code: {dir: .}\n")
    assert main(["submit", "many.yaml"]) == 2
    assert "Spec 2 names a folder" in capsys.readouterr().err
    assert names() == []


def test_requests_are_as_few_as_jobs_and_bytes_allow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither limit is passed; one spec that is too large goes by itself, for the server to refuse."""
    assert [*many.requests_of([b"x"] * 1_001)] == [(0, 500), (500, 1_000), (1_000, 1_001)]
    monkeypatch.setattr(many, "MOST_BYTES", 40)
    assert [*many.requests_of([b"x" * 10, b"x" * 10, b"x" * 100, b"x"])] == [(0, 2), (2, 3), (3, 4)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (b"name: a\n", [b"name: a\n"]),
        (b"---\nname: a\n", [b"\nname: a\n"]),
        (b"name: a\n---\nname: b\n...\n# end\n", [b"name: a\n", b"\nname: b\n"]),
        (b"--- {name: a}\n--- {name: b}\n", [b" {name: a}\n", b" {name: b}\n"]),
        (b"a: |\n  ---\n  b\nc: '----'\n", [b"a: |\n  ---\n  b\nc: '----'\n"]),
        (b'{\n"name": "a"}\n', [b'{\n"name": "a"}\n']),
        (b'{"n": 1}\n\n{"n": 2}', [b'{"n": 1}', b'{"n": 2}']),
        (b'[{"n": 1}, {"n": 2}]', [b'{"n": 1}', b'{"n": 2}']),
        (b'[{"n": 1}]', [b'{"n": 1}']),
        (b"# one\n--- \nname: a\n---\n", [b"\n \nname: a\n"]),
        (b"%YAML 1.2\n---\nname: a\n...\n%YAML 1.2\n---\nname: b\n", [b"\nname: a\n", b"\nname: b\n"]),
        (b"---\n%name: a\n---\nname: b\n", [b"\n%name: a\n", b"\nname: b\n"]),
        (b"", [b""]),
    ],
)
def test_a_text_is_split_where_its_specs_end(text: bytes, found: list[bytes]) -> None:
    """Markers within a text do not count; what cannot be split is the server's to refuse."""
    assert split_specs(text) == found
