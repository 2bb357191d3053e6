"""An array as a whole by REST and on its page: states, cancel all, retry what failed."""

import re
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Job
from tests.integration.api.conftest import World, spec

pytestmark = pytest.mark.django_db


def submitted(world: World, **changes: Any) -> Job:
    """Submit an array as the member; return its first job."""
    answer = world.client("member").post("/api/v1/jobs", spec(**changes), content_type="application/json")
    assert answer.status_code == 201, answer.content
    return Job.objects.get(pk=answer.json()["id"])


def test_an_array_is_read_cancelled_and_named(world: World) -> None:
    """Its jobs in the order of their indexes, with counts by state; a cancel ends all that has not ended."""
    first = submitted(world, array="2,4,6%2", name="sweep")
    key = f"A-{first.number}"
    Job.objects.filter(pk=first.pk).update(state=JobState.COMPLETED, ended_at=first.submitted_at, wait_reason="")
    member = world.client("member")

    row = member.get(f"/api/v1/arrays/{key}").json()

    assert (row["key"], row["name"], row["most_at_work"], row["num_jobs"]) == (key, "sweep", 2, 3)
    assert row["states"] == {"completed": 1, "queued": 2}
    assert [(one["index"], one["name"]) for one in row["jobs"]] == [(2, "sweep-2"), (4, "sweep-4"), (6, "sweep-6")]
    assert row["actions"] == ["cancel"]
    assert member.get(f"/api/v1/jobs/{first.number}").json()["array"] == key

    cancelled = member.post(f"/api/v1/arrays/{key}/cancel").json()
    assert cancelled["states"] == {"cancelled": 2, "completed": 1}
    assert cancelled["actions"] == []
    assert cancelled["jobs"][1]["end_detail"] == "Cancelled with its array by mia while queued."
    assert member.get("/api/v1/arrays/A-999").status_code == 404
    assert member.get("/api/v1/arrays/first").status_code == 404


def test_what_failed_is_tried_again_in_the_same_array(world: World) -> None:
    """New jobs with the same indexes and spec take the place of the failed ones; once is enough."""
    first = submitted(world, array="0-3%1", depends_on=[{f"J-{world.job.number}": "ended"}])
    of_array = Job.objects.filter(array_number=first.number)
    of_array.update(state=JobState.COMPLETED, ended_at=first.submitted_at, wait_reason="", waits_for="")
    of_array.filter(array_index__in=[1, 3]).update(state=JobState.FAILED)
    member = world.client("member")

    row = member.post(f"/api/v1/arrays/A-{first.number}/retry").json()

    assert row["states"] == {"completed": 2, "queued": 2}
    again = list(of_array.filter(state=JobState.QUEUED).order_by("array_index"))
    assert [(job.array_index, job.array_most, job.name, job.waits_for) for job in again] == [
        (1, 1, "train-1", ""),
        (3, 1, "train-3", ""),
    ]
    assert again[0].spec == {**first.spec, "depends_on": []}
    assert member.post(f"/api/v1/arrays/A-{first.number}/retry").status_code == 409
    assert world.client("lead").post(f"/api/v1/arrays/A-{first.number}/retry").status_code == 403


def test_arrays_are_listed_with_the_newest_job_of_each_index(world: World) -> None:
    """Newest first, page by page; what was tried again counts once; another team sees none of them."""
    first, second = submitted(world, array="0-3%1", name="one"), submitted(world, array="0-1", name="two")
    of_first = Job.objects.filter(array_number=first.number)
    of_first.update(state=JobState.COMPLETED, ended_at=first.submitted_at, wait_reason="", waits_for="")
    of_first.filter(array_index__in=[1, 3]).update(state=JobState.FAILED)
    member = world.client("member")
    assert member.post(f"/api/v1/arrays/A-{first.number}/retry").status_code == 200
    of_first.filter(array_index=3, state=JobState.QUEUED).update(state=JobState.RUNNING, wait_reason="")
    single = member.get(f"/api/v1/arrays/A-{first.number}").json()

    page = member.get("/api/v1/arrays", {"limit": 1}).json()
    rest = member.get(page["next"]).json()

    assert [(row["key"], row["name"], row["states"]) for row in page["results"]] == [
        (f"A-{second.number}", "two", {"queued": 2})
    ]
    assert rest["results"] == [{name: single[name] for name in rest["results"][0]}]
    assert (rest["results"][0]["num_jobs"], rest["results"][0]["states"]) == (
        4,
        {"completed": 2, "queued": 1, "running": 1},
    )
    last = member.get(rest["next"]).json()
    assert ([row["key"] for row in last["results"]], last["next"]) == ([f"A-{world.job.number}"], None)
    assert member.get("/api/v1/arrays", {"count": "true"}).json()["total"] == 3
    assert world.client("outsider").get("/api/v1/arrays").json()["results"] == []


def test_experiments_list_arrays_and_ask_no_more_for_more_of_them(world: World) -> None:
    """With a link, sums of states and age; no list where there are none to see."""
    member = world.client("member")
    first = submitted(world, array="0-4", name="sweep")
    Job.objects.filter(array_number=first.number, array_index=2).update(state=JobState.RUNNING, wait_reason="")

    def asked() -> tuple[int, str]:
        with CaptureQueriesContext(connection) as queries:
            page = member.get("/experiments").content.decode()
        return len(queries), page

    before, page = asked()
    assert f'href="/arrays/A-{first.number}">sweep</a>' in page
    numbers = re.findall(r'<td class="num" data-label="[^"]*">(\d+)</td>', page[page.index('id="arrays"') :])
    assert numbers[:5] == ["5", "4", "1", "0", "0"]
    submitted(world, array="0-1", name="other")
    after, page = asked()
    assert after == before
    assert page.index(">other</a>") < page.index(">sweep</a>")
    assert 'id="arrays"' not in world.client("outsider").get("/experiments").content.decode()


def test_the_page_shows_the_array_and_sorts_it(world: World) -> None:
    """States, reasons and actions; a click on a head sorts, and what is unknown stands last."""
    first = submitted(world, array="0-2")
    for index, loss in ((0, 0.5), (2, 0.1)):
        Job.objects.filter(array_number=first.number, array_index=index).update(loss=loss)
    member = world.client("member")

    page = member.get(f"/arrays/A-{first.number}?sort=loss").content.decode()

    assert "of train completed</h1>" in page
    numbers = [page.index(f"J-{first.number + index}<") for index in (2, 0, 1)]
    assert numbers == sorted(numbers)
    assert 'aria-sort="ascending"' in page
    assert f"A-{first.number}</a>, index 0" in member.get(f"/jobs/J-{first.number}").content.decode()

    answer = member.post(f"/arrays/A-{first.number}", {"do": "cancel"}, follow=True)
    assert "are cancelled" in answer.content.decode()
    assert not Job.objects.filter(array_number=first.number, state=JobState.QUEUED).exists()


def test_the_form_goes_to_the_page_of_the_array(world: World) -> None:
    """And the dry run says how many jobs there would be."""
    fields = {"mode": "form", "name": "many", "queue": "vision", "command": "true", "gpus": "1", "array": "0-9%3"}
    answer = world.client("member").post("/jobs/new", fields | {"action": "submit", "preemptible": "on"})
    first = Job.objects.filter(name="many-0").get()
    assert answer["Location"] == f"/arrays/A-{first.number}"

    tried = world.client("member").post(
        "/api/v1/jobs?dry_run=true", spec(array="0-9%3"), content_type="application/json"
    )
    assert {"name": "array", "ok": True, "text": "10 jobs, 3 of them at work at once."} in tried.json()["checks"]
