"""Submitting, listing and acting on jobs over HTTP."""

import json
from datetime import timedelta
from typing import Any

import pytest
import yaml
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job, Server
from tests.integration.api.conftest import World, spec
from tests.support.rows.factories import AT, attempt_make, gang_make, job_make, server_make

SCRIPT = "print('grüße')\n"


def submit(client: Client, body: Any, **more: Any) -> Any:
    """Post a spec as JSON."""
    return client.post("/api/v1/jobs", json.dumps(body), content_type="application/json", **more)


def names(answer: Any) -> list[str]:
    """Return the names of the jobs of a page."""
    return [row["name"] for row in answer.json()["results"]]


def walk(client: Client, url: str, link: str = "next") -> list[list[int]]:
    """Return the job numbers of each page from ``url`` on."""
    pages = []
    here: str | None = url
    while here:
        body = client.get(here).json()
        pages.append([row["number"] for row in body["results"]])
        here = body[link]
    return pages


def test_submitted_job_is_created_at_its_location(world: World) -> None:
    """201, and the address answers with the same job."""
    client = world.client("member")

    answer = submit(client, spec(name="first"))

    assert answer.status_code == 201
    assert answer.headers["Location"] == f"http://testserver/api/v1/jobs/{answer.json()['id']}"
    found = client.get(answer.headers["Location"]).json()
    assert found == answer.json()
    assert client.get(f"/api/v1/jobs/J-{found['number']}").json() == found
    assert found["wait_sentence"]


def test_same_job_in_json_yaml_and_forms_gives_equal_stored_specs(world: World) -> None:
    """How a spec is spelled does not matter."""
    client = world.client("member")
    whole = spec(files={"train.py": SCRIPT})
    text = yaml.safe_dump(spec())
    script = SCRIPT.encode()

    answers = [
        submit(client, whole),
        client.post("/api/v1/jobs", yaml.safe_dump(whole), content_type="application/yaml"),
        client.post(
            "/api/v1/jobs",
            {
                "spec": SimpleUploadedFile("job.yaml", text.encode()),
                "file": SimpleUploadedFile("train.py", script),
            },
        ),
        client.post("/api/v1/jobs", {"spec": json.dumps(spec()), "file": SimpleUploadedFile("train.py", script)}),
    ]

    assert [answer.status_code for answer in answers] == [201] * 4
    stored = {json.dumps(job.spec) for job in Job.objects.filter(name="train")}
    assert len(stored) == 1
    assert json.loads(stored.pop())["files"] == {"train.py": SCRIPT}


def test_form_lays_every_file_into_the_spec_and_names_what_is_wrong_with_one(world: World) -> None:
    """Two files are two files; a second of one name, binary content and unknown parts are errors."""
    client = world.client("member")
    good = client.post(
        "/api/v1/jobs?dry_run=true",
        {"spec": json.dumps(spec()), "file": [SimpleUploadedFile("a.py", b"1"), SimpleUploadedFile("b.py", b"2")]},
    )
    bad = client.post(
        "/api/v1/jobs",
        {"spec": json.dumps(spec(files={"a.py": ""})), "file": [SimpleUploadedFile("a.py", b"\xff\xfe")]},
    )
    unknown = client.post("/api/v1/jobs", {"job": json.dumps(spec())})

    assert good.json()["spec"]["files"] == {"a.py": "1", "b.py": "2"}
    assert [(e["pointer"], e["code"]) for e in bad.json()["errors"]] == [
        ("/files/a.py", "repeated"),
        ("/files/a.py", "invalid"),
    ]
    assert {e["pointer"] for e in unknown.json()["errors"]} == {"/job", "/spec"}


def test_dry_run_stores_nothing_and_shows_every_default(world: World) -> None:
    """What would be stored can be read before it is."""
    before = Job.objects.count()

    answer = world.client("member").post(
        "/api/v1/jobs?dry_run=true", json.dumps(spec()), content_type="application/json"
    )

    assert answer.status_code == 200
    assert answer.json()["spec"]["schedule"] == {
        "priority": 50,
        "preemptible": True,
        "max_duration": None,
        "warn_before": None,
    }
    assert all(check["ok"] and check["text"] for check in answer.json()["checks"])
    assert Job.objects.count() == before


def test_actions_move_the_job_and_say_when_they_cannot(world: World) -> None:
    """Suspend, resume and cancel a queued job; a cancelled one cannot be resumed."""
    client = world.client("member")
    job = submit(client, spec()).json()["id"]

    states = [client.post(f"/api/v1/jobs/{job}/{verb}").json()["state"] for verb in ("suspend", "resume", "cancel")]
    late = client.post(f"/api/v1/jobs/{job}/resume")

    assert states == ["suspended", "queued", "cancelled"]
    assert late.status_code == 409
    assert "cancelled" in late.json()["detail"]


def test_pages_hold_every_job_once_while_jobs_are_added(world: World) -> None:
    """A cursor names a row, so a list that grows at its head neither repeats nor skips."""
    client = world.client("member")
    for _ in range(7):
        job_make(world.vision, owner=world.users["member"])
    before = set(Job.objects.values_list("number", flat=True))
    seen: list[int] = []
    here: str | None = "/api/v1/jobs?limit=3"
    while here:
        body = client.get(here).json()
        seen += [row["number"] for row in body["results"]]
        here = body["next"]
        job_make(world.vision, owner=world.users["member"])

    assert seen == sorted(before, reverse=True)


@pytest.mark.parametrize("ordering", ["number", "-number", "gpus", "-gpus", "submitted_at", "-name", "priority"])
def test_walking_back_gives_the_same_pages(world: World, ordering: str) -> None:
    """``previous`` leads where ``next`` came from, in every order, also with equal values."""
    for index in range(6):
        job_make(world.vision, num_gpus=1 + index % 2, at=AT + timedelta(seconds=index // 2), priority=index % 3)
    client = world.client("member")
    url = f"/api/v1/jobs?limit=2&ordering={ordering}"
    forward = walk(client, url)
    first = client.get(url).json()
    second = client.get(first["next"]).json()
    third = client.get(second["next"]).json()

    back = client.get(third["previous"]).json()

    assert sorted(number for page in forward for number in page) == sorted(Job.objects.values_list("number", flat=True))
    assert [row["number"] for row in back["results"]] == forward[1]
    assert client.get(back["previous"]).json()["results"] == first["results"]
    assert first["previous"] is None


def test_cursor_that_was_changed_or_belongs_to_another_order_is_refused(world: World) -> None:
    """A cursor is what the list gave, nothing else."""
    job_make(world.vision)
    client = world.client("member")
    cursor = client.get("/api/v1/jobs?limit=1").json()["next"].split("cursor=")[1]

    made_up = client.get("/api/v1/jobs?cursor=abc")
    other_order = client.get(f"/api/v1/jobs?ordering=number&cursor={cursor}")

    assert [made_up.status_code, other_order.status_code] == [400, 400]
    assert made_up.json()["errors"][0]["pointer"] == "?cursor"


def test_filters_narrow_the_list(world: World) -> None:
    """Each filter alone, and the total only when asked for."""
    vision, member = world.vision, world.users["member"]
    job_make(vision, owner=member, name="small", num_gpus=1, at=AT)
    job_make(vision, name="large", num_gpus=4, at=AT + timedelta(hours=1), state=JobState.COMPLETED)
    client = world.client("viewer")

    def found(query: str) -> set[str]:
        return set(names(client.get(f"/api/v1/jobs?{query}"))) - {"canary-job", "search-1"}

    assert found("state=completed") == {"large"}
    assert found("state=queued,running,completed") == {"small", "large"}
    assert found("queue=org") == {"small", "large"}
    assert found("queue=speech") == set()
    assert found("owner=mia") == {"small"}
    assert found("submitted_after=2026-03-07T15:00:00Z") == {"large"}
    assert found("submitted_before=2026-03-07T16:32:00%2B01:00") == {"small"}
    assert found("gpus__gte=2&gpus__lte=4") == {"large"}
    assert found("search=MAL") == {"small"}
    assert found(f"search=J-{Job.objects.get(name='large').number}") == {"large"}
    assert client.get("/api/v1/jobs?count=true&limit=1").json()["total"] == 4
    assert "total" not in client.get("/api/v1/jobs").json()


def test_history_of_a_job_is_told_in_order(world: World) -> None:
    """Events, attempts and the timeline run from the oldest to the newest."""
    job = job_make(world.vision, state=JobState.COMPLETED)
    client = world.client("viewer")

    events = client.get(f"/api/v1/jobs/{job.pk}/events?limit=2").json()
    rest = client.get(events["next"]).json()
    attempts = client.get(f"/api/v1/jobs/{job.pk}/attempts").json()["results"]
    timeline = client.get(f"/api/v1/jobs/{job.pk}/placement").json()["results"]

    assert [event["number"] for event in events["results"] + rest["results"]] == [1, 2, 3, 4]
    assert [attempt["end_cause"] for attempt in attempts] == ["completed"]
    assert attempts[0]["servers"][0]["gpus"] == [0]
    assert [entry["kind"] for entry in timeline] == ["wait", "attempt"]


def test_logs_are_json_or_text_by_accept_and_go_on_at_an_offset(world: World, settings: Any) -> None:
    """The end of the log, what follows an offset, and one attempt of several."""
    attempt = world.job.attempts.get()
    directory = settings.SHARED_DIR / "attempts" / attempt.pk
    directory.mkdir(parents=True)
    (directory / f"log.{0:020d}").write_text("one\ntwo\nthree\n")
    client, url = world.client("viewer"), f"/api/v1/jobs/{world.job.pk}/logs"

    tail = client.get(f"{url}?tail=2").json()
    rest = client.get(f"{url}?offset=4").json()
    text = client.get(f"{url}?tail=1", headers={"Accept": "text/plain"})

    assert [tail["text"], tail["start_offset"], tail["end_offset"], tail["truncated"]] == ["two\nthree\n", 4, 14, True]
    assert [rest["text"], rest["attempt"]] == ["two\nthree\n", 1]
    assert text.content == b"three\n"
    assert text.headers["Content-Type"] == "text/plain; charset=utf-8"
    assert client.get(f"{url}?attempt=2").status_code == 404
    assert client.get(f"{url}?offset=-1").status_code == 400


def test_log_of_each_process_is_read_by_its_number(world: World, settings: Any) -> None:
    """0 is the first, as without a number; one that there is not says which there are."""
    attempt = world.job.attempts.get()
    ids = (attempt.pk, gang_make(attempt).pk)
    for number, name in enumerate(ids):
        directory = settings.SHARED_DIR / "attempts" / name
        directory.mkdir(parents=True)
        (directory / f"log.{0:020d}").write_text(f"rank {number}\n")
    client, url = world.client("viewer"), f"/api/v1/jobs/{world.job.pk}/logs"

    texts = [client.get(f"{url}{query}").json()["text"] for query in ("", "?rank=0", "?rank=1", "?rank=1&offset=5")]
    missing = client.get(f"{url}?rank=2").json()

    assert texts == ["rank 0\n", "rank 0\n", "rank 1\n", "1\n"]
    assert missing["text"] == ""
    assert missing["reason"] == "Attempt 1 has no process of rank 2: they are numbered 0 to 1."


def test_log_of_a_job_that_has_not_started_says_so(world: World) -> None:
    """Nothing to read is an answer with a reason, not an error."""
    job = job_make(world.vision)
    over = job_make(world.vision, state=JobState.CANCELLED)

    body = world.client("viewer").get(f"/api/v1/jobs/{job.pk}/logs").json()
    ended = world.client("viewer").get(f"/api/v1/jobs/{over.pk}/logs").json()

    assert body["text"] == ""
    assert body["attempt"] is None
    assert (body["reason"], ended["reason"]) == (
        "The job has not started yet.",
        "It never started, so there is no log.",
    )


def test_receipt_names_no_job_of_another_queue(world: World) -> None:
    """By whom one was preempted is told only as far as one may see."""
    other = job_make(world.speech, name="other-canary")
    attempt = world.job.attempts.get()
    attempt.preempt_rule, attempt.preempted_by = "quota_reclaim", other
    attempt.save()
    url = f"/api/v1/jobs/{world.job.pk}/placement"

    seen = world.client("member").get(url).content.decode()
    by_admin = world.client("admin").get(url).content.decode()

    assert "another job" in seen
    assert "other-canary" not in seen
    assert other.pk not in seen
    assert "other-canary" in by_admin


def test_second_attempt_is_the_one_whose_log_is_read(world: World) -> None:
    """Without a number the newest attempt is meant."""
    job = job_make(world.vision, state=JobState.RUNNING)
    job.attempts.update(state="ended", ended_at=AT)
    attempt_make(job)

    assert world.client("viewer").get(f"/api/v1/jobs/{job.pk}/logs").json()["attempt"] == 2


def test_answers_with_sentences_say_what_the_devices_are(world: World) -> None:
    """In a header, so that the command needs no list of all servers for a word; a job that is stored pays nothing."""
    Server.objects.update(device_kind="cpu_slot")
    member, job = world.client("member"), world.job
    paths = ("jobs", f"jobs/{job.pk}", f"jobs/{job.pk}/explain", f"arrays/A-{job.number}")

    answers = [member.get(f"/api/v1/{path}") for path in paths]
    answers.append(member.post("/api/v1/jobs?dry_run=true", json.dumps(spec()), content_type="application/json"))
    server_make(device_kind="gpu")

    assert [answer["Clusterweb-Devices"] for answer in answers] == ["cpu_slot"] * 5
    assert member.get("/api/v1/jobs")["Clusterweb-Devices"] == "cpu_slot, gpu"
    assert "Clusterweb-Devices" not in submit(member, spec())


@pytest.mark.parametrize("media", ["application/json", "application/yaml"])
def test_what_a_submit_answers_can_be_waited_for(world: World, media: str) -> None:
    """Its number, as such and as J-12, and its id; each is kept as the number, once."""
    client = world.client("member")
    first = submit(client, spec(name="prepare")).json()
    named = [first["id"], first["id"].lower(), first["number"], str(first["number"]), f"J-{first['number']}"]
    body = spec(depends_on=[*named, {first["id"]: "completed"}, {f"{first['number']}": "completed"}])
    text = json.dumps(body)  # which YAML reads too
    second = client.post("/api/v1/jobs", text, content_type=media)
    many = client.post("/api/v1/jobs/bulk", {"jobs": [body, body]}, content_type="application/json")

    assert second.status_code == 201, second.content
    assert many.status_code == 201, many.content
    job = Job.objects.get(pk=second.json()["id"])
    assert job.spec["depends_on"] == [{f"J-{first['number']}": "completed"}]
    assert job.waits_for == f"J-{first['number']}:completed"
    assert {one.waits_for for one in Job.objects.filter(number__gt=job.number)} == {job.waits_for}


@pytest.mark.parametrize("named", ["prepare", "01KB5XZQ8M3JV0W7R2T9Y4N6PD", 987654, "J-987654"])
def test_a_wrong_dependency_says_what_would_be_right(world: World, named: object) -> None:
    """A name is no key; an id or number of no job that the user sees names none."""
    answer = submit(world.client("member"), spec(depends_on=[named]))
    [error] = answer.json()["errors"]

    assert (answer.status_code, error["pointer"]) == (400, "/depends_on/0")
    assert "a job by its number or id as its submit answered it, such as J-12" in error["detail"]
