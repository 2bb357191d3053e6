"""Several jobs by one request, and what one user may take."""

import json
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from scheduler.models import Cluster, Event, Job, Queue
from tests.integration.api.conftest import World, spec
from tests.support.rows.factories import job_make, server_make

# Columns in which two jobs may differ.
OWN = {"id", "number", "name", "submitted_at", "state_changed_at", "wait_since", "told_at"}


def post(client: Client, path: str, body: object, **headers: str) -> Any:
    """Post JSON."""
    return client.post(f"/api/v1/{path}", json.dumps(body), content_type="application/json", headers=headers)


def test_jobs_of_one_request_are_stored_as_those_of_many(world: World) -> None:
    """In their order, with numbers that follow each other, equal to jobs that were submitted one by one."""
    client = world.client("member")
    single = post(client, "jobs", spec(name="one", env={"A": "1"})).json()
    answer = post(client, "jobs/bulk", {"jobs": [spec(name=f"many-{n}", env={"A": "1"}) for n in range(30)]})

    assert answer.status_code == 201
    rows = answer.json()["results"]
    assert [row["name"] for row in rows] == [f"many-{n}" for n in range(30)]
    assert [row["number"] for row in rows] == list(range(single["number"] + 1, single["number"] + 31))
    kept = [_plain(number) for number in (single["number"], *(row["number"] for row in rows))]
    assert all(one == kept[0] for one in kept)


def _plain(number: int) -> dict[str, Any]:
    """Return the row and the events of a job without what is its own."""
    job = Job.objects.get(number=number)
    row = {field.attname: getattr(job, field.attname) for field in Job._meta.concrete_fields if field.name not in OWN}
    row["spec"] = {key: value for key, value in row["spec"].items() if key != "name"}
    events = Event.objects.filter(job=job).order_by("number")
    row["events"] = [(one.number, one.kind, one.actor, one.new_state, one.reason, one.data) for one in events]
    return row


def test_one_submit_asks_for_roles_once(world: World) -> None:
    """Of the queries of a submit each costs a tenth of a millisecond or more of the web process."""
    client = world.client("member")
    post(client, "jobs", spec())
    with CaptureQueriesContext(connection) as captured:
        assert post(client, "jobs", spec()).status_code == 201

    of_roles = [one["sql"] for one in captured if 'FROM "scheduler_membership"' in one["sql"]]
    assert len(of_roles) == 1


def test_one_bad_spec_stores_none(world: World) -> None:
    """Each bad field is named with the place of its job."""
    before = Job.objects.count()
    jobs = [spec(), spec(resources={"gpus": 0}), spec(queue="nowhere"), spec(resources={"gpus": 900})]
    answer = post(world.client("member"), "jobs/bulk", {"jobs": jobs})

    assert answer.status_code == 400
    pointers = [error["pointer"] for error in answer.json()["errors"]]
    assert pointers == ["/jobs/1/resources/gpus", "/jobs/2/queue", "/jobs/3/resources/gpus"]
    assert Job.objects.count() == before


def test_specs_come_as_texts_too(world: World) -> None:
    """YAML or JSON, equal to the same as objects; what cannot be read is named with its place, each of them."""
    client, before = world.client("member"), Job.objects.count()
    text = "apiVersion: v1\nname: train\nqueue: vision\ncommand: [python, train.py]\nenv: {A: '1'}\n"
    bad = post(client, "jobs/bulk", {"specs": [text, "name: [", "{", text]})
    wrong = post(client, "jobs/bulk", {"specs": [text, "[]", text.replace("vision", "nowhere")]})
    both = post(client, "jobs/bulk", {"specs": [text], "jobs": [spec()]})
    assert Job.objects.count() == before
    as_object = {"apiVersion": "v1", "name": "train", "queue": "vision", "command": ["python", "train.py"]}
    first = post(client, "jobs/bulk", {"specs": [text, json.dumps({**as_object, "env": {"A": "1"}})]})
    second = post(client, "jobs/bulk", {"jobs": [{**as_object, "env": {"A": "1"}}]})

    assert [error["pointer"] for error in bad.json()["errors"]] == ["/specs/1", "/specs/2"]
    assert [error["pointer"] for error in wrong.json()["errors"]] == ["/specs/1", "/specs/2/queue"]
    assert [error["pointer"] for error in both.json()["errors"]] == ["/jobs"]
    assert post(client, "jobs/bulk", {}).json()["errors"][0]["pointer"] == "/jobs"
    assert (first.status_code, second.status_code) == (201, 201)
    rows = [*first.json()["results"], *second.json()["results"]]
    assert len({json.dumps(_plain(row["number"]), sort_keys=True, default=str) for row in rows}) == 1


def test_repeated_request_stores_the_jobs_once(world: World) -> None:
    """The same Idempotency-Key gives the same answer."""
    client, body = world.client("member"), {"jobs": [spec(), spec()]}
    first, second = (post(client, "jobs/bulk", body, **{"Idempotency-Key": "k"}) for _ in range(2))

    assert first.json() == second.json()
    assert second.headers["Idempotency-Replayed"] == "true"
    assert Job.objects.filter(number__gte=first.json()["results"][0]["number"]).count() == 2


@pytest.mark.parametrize("jobs", [[], [{}] * 501, "no list"])
def test_bulk_of_another_size_is_refused(world: World, jobs: object) -> None:
    """One to 500 at once."""
    assert post(world.client("member"), "jobs/bulk", {"jobs": jobs}).status_code == 400


def test_viewer_submits_none(world: World) -> None:
    """As with one job."""
    assert post(world.client("viewer"), "jobs/bulk", {"jobs": [spec()]}).status_code == 403


def test_statements_of_a_submit_are_few_and_do_not_grow(world: World) -> None:
    """Neither with what is queued nor with servers, and those of many jobs at once hardly with their number."""
    client = world.client("member")
    post(client, "jobs", spec())

    def asked(path: str, body: object) -> int:
        with CaptureQueriesContext(connection) as queries:
            assert post(client, path, body).status_code == 201
        return sum("SAVEPOINT" not in query["sql"] for query in queries)

    before = asked("jobs", spec())
    for _ in range(20):
        job_make(world.vision, owner=world.users["member"])
        server_make()

    assert asked("jobs", spec()) == before <= 18
    assert asked("jobs/bulk", {"jobs": [spec() for _ in range(25)]}) <= before + 4


def test_user_may_queue_so_many_jobs_and_no_more(world: World) -> None:
    """Those of all queues count; the answer says how many, and what to do."""
    client = world.client("member")
    mine = Job.objects.filter(owner=world.users["member"], state="queued").count()
    post(client, "jobs", spec())
    Cluster.objects.update(user_most_queued=mine + 3)
    too_many = post(client, "jobs/bulk", {"jobs": [spec()] * 3})
    enough = post(client, "jobs/bulk", {"jobs": [spec()] * 2})
    one_more = post(client, "jobs", spec())

    assert (too_many.status_code, enough.status_code, one_more.status_code) == (400, 201, 400)
    [error] = too_many.json()["errors"]
    assert (error["pointer"], error["code"]) == ("/jobs/queue", "user_limit")
    assert "Submit at most 2 instead of 3" in error["detail"]
    [error] = one_more.json()["errors"]
    assert error["detail"].startswith(f"You have {mine + 3} queued in the cluster, and one user may have {mine + 3}.")
    assert post(world.client("lead"), "jobs", spec()).status_code == 201


def test_spec_may_take_so_many_bytes(world: World) -> None:
    """Files count; the answer names the limit and the size."""
    Cluster.objects.update(spec_most_bytes=2_000)
    client = world.client("member")
    answer = post(client, "jobs", spec(files={"train.py": "x" * 2_000}))

    assert answer.status_code == 400
    [error] = answer.json()["errors"]
    assert (error["pointer"], error["code"]) == ("/files", "length")
    assert "at most 2,000 bytes" in error["detail"]
    assert post(client, "jobs", spec(files={"train.py": "x" * 200})).status_code == 201


def test_admin_sets_what_a_user_may_take(world: World) -> None:
    """Within bounds; a member may not."""
    admin, member = world.client("admin"), world.client("member")
    etag = {"If-Match": admin.get("/api/v1/settings").headers["ETag"]}

    def change(client: Client, **changes: object) -> Any:
        body = json.dumps({**changes, "reason": "too many"})
        return client.patch("/api/v1/settings", body, content_type="application/json", headers=etag)

    assert change(member, user_most_queued=7).status_code == 403
    refused = change(admin, user_most_queued=0, spec_most_bytes=10**9, experiment_most_jobs=0)
    assert [error["pointer"] for error in refused.json()["errors"]] == [
        "/user_most_queued",
        "/spec_most_bytes",
        "/experiment_most_jobs",
    ]
    assert change(admin, user_most_queued=7, spec_most_bytes=4_096, experiment_most_jobs=20).status_code == 200
    cluster = Cluster.objects.get()
    assert (cluster.user_most_queued, cluster.spec_most_bytes, cluster.experiment_most_jobs) == (7, 4_096, 20)


def test_queue_below_that_was_made_meanwhile_refuses_the_job(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Jobs belong to leaves also when a queue is divided between the check and the store."""
    import scheduler.services.jobs.submit as submit

    take = submit._take_numbers

    def divided_first(count: int) -> int:
        Queue.objects.create(
            name="vision/new", parent=world.vision, quota_gpus=0, created_at=world.vision.created_at, color_slot=1
        )
        return take(count)

    monkeypatch.setattr(submit, "_take_numbers", divided_first)
    answer = post(world.client("lead"), "jobs", spec())

    assert answer.status_code == 400
    assert answer.json()["errors"][0]["code"] == "not_leaf"
