"""The files of an ended job are kept longer: by REST and page, for whom, and what is told of it."""

import json
import re
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from django.contrib.messages import get_messages

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job, Queue
from tests.integration.api.conftest import World
from tests.support.rows.factories import job_make
from tests.support.rows.files import file_write

pytestmark = pytest.mark.django_db


@pytest.fixture
def job(world: World) -> Job:
    """A job of the member that ended two days ago, with a directory."""
    ended = datetime.now(UTC) - timedelta(days=2)
    return job_make(
        world.vision, owner=world.users["member"], state=JobState.COMPLETED, at=ended, name="vit", directory_bytes=9
    )


def in_days(days: int) -> date:
    """Return a day from today on (UTC)."""
    return (datetime.now(UTC) + timedelta(days=days)).date()


def asked(world: World, job: Job, body: object, role: str = "member") -> Any:
    """POST the action of REST; return the answer."""
    path = f"/api/v1/jobs/J-{job.number}/keep"
    return world.client(role).post(path, json.dumps(body), content_type="application/json")


def test_last_day_is_kept_whole_and_taken_back(world: World, job: Job) -> None:
    """A day in, a moment out, and null back to the rule of the queue; both dates are in the answer and the audit."""
    day = in_days(90)
    longer = asked(world, job, {"until": day.isoformat()}).json()
    more = asked(world, job, {"days": 30}).json()
    back = asked(world, job, {"until": None}).json()
    [_, before, first] = world.client("admin").get("/api/v1/audit?kind=directory_kept").json()["results"]

    assert longer["directory"]["kept_until"] == f"{day}T23:59:59Z"
    assert longer["directory"]["queue_keeps_until"] == back["directory"]["kept_until"]
    assert more["directory"]["kept_until"] == f"{day + timedelta(days=30)}T23:59:59Z"
    assert "keep" in longer["actions"]
    assert (first["who"], first["did"], first["job"]) == ("mia", "keep", f"J-{job.number}")
    assert first["after"] == before["before"] == {"keep_until": f"{day}T23:59:59Z"}


@pytest.mark.parametrize(
    ("body", "pointer", "says"),
    [
        ({"until": "31.1.2027"}, "/until", "a day such as"),
        ({"until": "2001-01-31"}, "/until", "You gave 2001-01-31."),
        ({"until": "9999-12-31"}, "/until", "until must be a day from "),
        ({"days": -1}, "/days", "days, up to a year from now, must be between 1 and 3"),
        ({"days": 30, "until": None}, "/until", "one of the two"),
        ({}, "/until", "one of the two"),
    ],
)
def test_bad_body_is_told_with_its_field(world: World, job: Job, body: object, pointer: str, says: str) -> None:
    """400, and what would be right."""
    answer = asked(world, job, body)
    [error] = answer.json()["errors"]

    assert answer.status_code == 400
    assert error["pointer"] == pointer
    assert says in error["detail"]


@pytest.mark.parametrize(
    ("role", "rest", "page"),
    [
        ("anonymous", 401, 302),
        ("outsider", 404, 404),
        ("viewer", 403, 302),
        ("member", 200, 200),
        ("lead", 200, 200),
        ("admin", 200, 200),
    ],
)
def test_owner_leads_and_admins_may(world: World, job: Job, role: str, rest: int, page: int) -> None:
    """As with the other actions on a job; the button is for them alone."""
    file_write(job, "out/last.pt", b"weights")
    client, path = world.client(role), f"/jobs/J-{job.number}"
    asks, tab = client.get(f"{path}/keep"), client.get(f"{path}/files")

    assert asks.status_code == page
    assert (f'href="{path}/keep"' in tab.content.decode()) == (page == 200)
    assert asked(world, job, {"days": 30}, role).status_code == rest


def test_member_keeps_no_files_of_another(world: World, job: Job) -> None:
    """A member of the queue that is not the owner sees the date, and may not change it."""
    Job.objects.filter(pk=job.pk).update(owner=world.users["lead"])

    assert asked(world, job, {"days": 30}).status_code == 403
    assert asked(world, world.job, {"days": 30}).status_code == 409


def test_page_offers_thirty_days_more_and_the_way_back(world: World, job: Job) -> None:
    """In days of the reader's zone; a wrong date stands in the form again with what is right."""
    client, path = world.client("member"), f"/jobs/J-{job.number}/keep"
    client.cookies["zone"] = "Asia/Tokyo"
    file_write(job, "out/last.pt", b"weights")
    assert job.ended_at is not None
    form = client.get(path).content.decode()
    wrong = client.post(path, {"until": "2001-01-31"})
    kept = client.post(path, {"until": in_days(60).isoformat()})
    job.refresh_from_db()
    tab = client.get(f"/jobs/J-{job.number}/files").content.decode()
    again = client.get(path).content.decode()
    undone = client.post(path, {"do": "undo"})

    assert f'value="{(job.ended_at + timedelta(days=60, hours=9)).date()}"' in form
    assert "Only until" not in form
    assert wrong.status_code == 422
    assert "You gave 2001-01-31." in wrong.content.decode()
    assert job.keep_directory_until == datetime(*in_days(60).timetuple()[:3], 14, 59, 59, tzinfo=UTC)
    assert "days of vision" in tab
    assert "Only until" in again
    assert [answer.status_code for answer in (kept, undone)] == [302, 302]
    assert "The files of vit are kept until" in str(next(iter(get_messages(undone.wsgi_request))))
    job.refresh_from_db()
    assert job.keep_directory_until is None


def test_days_are_those_of_the_reader_west_of_utc_as_well(world: World, job: Job) -> None:
    """What was typed is what the events say, and the last day that a refusal names is taken."""
    client, path = world.client("member"), f"/jobs/J-{job.number}/keep"
    client.cookies["zone"] = "Pacific/Honolulu"
    late = client.post(path, {"until": "9999-12-31"}).content.decode()
    found = re.search(r"to (\d{4}-\d\d-\d\d)\. You gave 9999-12-31\.", late)
    assert found
    last = date.fromisoformat(found[1])

    assert client.post(path, {"until": (last + timedelta(days=1)).isoformat()}).status_code == 422
    assert client.post(path, {"until": last.isoformat()}).status_code == 302
    assert f"until {last.day} {last:%b %Y}" in client.get(f"/jobs/J-{job.number}/events").content.decode()
    form = client.get(path).content.decode()
    assert f'value="{last}"' in form, "thirty days more would be beyond a year"


def test_queue_that_keeps_files_for_years_offers_no_date(world: World, job: Job) -> None:
    """No day would be taken, so there is no button for one."""
    Queue.objects.filter(pk=world.vision.pk).update(keep_directories_days=400)
    shown = world.client("member").get(f"/api/v1/jobs/J-{job.number}").json()

    assert shown["actions"] == ["discard"]


def test_words_of_the_date_and_the_limit(world: World, job: Job) -> None:
    """The events of the job and the feed say who kept what until when; the form says what a limit does."""
    Queue.objects.filter(pk=world.vision.pk).update(user_directories_most_bytes=2**30)
    day = in_days(90)
    asked(world, job, {"until": day.isoformat()})
    client = world.client("member")
    words = f"until {day.day} {day:%b %Y}"

    assert f"mia keeps its files {words}" in client.get(f"/jobs/J-{job.number}/events").content.decode()
    assert words in client.get("/events").content.decode()
    assert "the oldest go earlier" in client.get(f"/jobs/J-{job.number}/keep").content.decode()
    asked(world, job, {"until": None})
    assert "only as long as its queue does" in client.get(f"/jobs/J-{job.number}/events").content.decode()


def test_paths_of_files_to_discard_are_taken_letter_by_letter(world: World, job: Job) -> None:
    """A blank at the end makes another name; the directory itself is named by no path at all."""
    file_write(job, "out", b"kept")
    path = f"/api/v1/jobs/J-{job.number}/discard"
    for name in ("out ", "/"):
        answer = world.client("member").post(path, json.dumps({"paths": [name]}), content_type="application/json")

        assert answer.status_code == 404, name
    job.refresh_from_db()
    assert job.directory_removal_at is None
