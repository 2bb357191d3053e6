"""What a live page reads when it connects, the feed, and who one is."""

from scheduler.core.model.lifecycle import JobState
from tests.integration.api.conftest import World
from tests.support.rows.factories import job_make


def test_overview_merges_what_one_may_not_see(world: World) -> None:
    """A stranger sees how full the cluster is, and nobody's names."""
    body = world.client("outsider").get("/api/v1/overview").json()

    assert body["cluster"]["running_jobs"] == 1
    assert [row["name"] for row in body["queues"]] == ["speech", "other queues"]
    assert body["queues"][1]["held_gpus"] == 1
    held = [gpu for server in body["servers"] for gpu in server["gpus"] if gpu["allocated"]]
    assert [gpu["job"] for gpu in held] == [None]
    assert [gpu["queue"] for gpu in held] == ["another queue"]


def test_overview_gives_only_the_parts_that_are_asked_for(world: World) -> None:
    """A page that shows the cluster strip does not wait for statistics."""
    client = world.client("member")

    assert set(client.get("/api/v1/overview?only=cluster,queues").json()) == {"cluster", "queues"}
    assert client.get("/api/v1/overview?only=weather").status_code == 400
    assert len(client.get("/api/v1/overview").json()) == 7


def test_feed_holds_the_news_of_own_queues(world: World) -> None:
    """Newest first, ids as text, nothing of other queues."""
    job_make(world.speech, state=JobState.COMPLETED, name="elsewhere")

    rows = world.client("viewer").get("/api/v1/events?limit=2").json()["results"]

    assert [row["new_state"] for row in rows] == ["running", "launching"]
    assert [int(row["id"]) for row in rows] == sorted((int(row["id"]) for row in rows), reverse=True)
    assert all(row["queue"] == "vision" for row in rows)


def test_me_tells_roles_and_what_the_token_may_do(world: World) -> None:
    """A client can ask what it may do before it tries."""
    by_session = world.client("lead").get("/api/v1/me").json()
    by_token = world.client("anonymous").get("/api/v1/me", headers=world.bearer("member", "jobs:write")).json()

    assert by_session["queues"] == [{"name": "vision", "role": "lead"}]
    assert by_session["scopes"] is None
    assert by_token["username"] == "mia"
    assert by_token["scopes"] == ["jobs:write"]
    assert world.client("admin").get("/api/v1/me").json()["is_admin"] is True
