"""Having a hash gives nothing: contents and folders of others are not there for whoever has not sent them."""

import json
from datetime import UTC, datetime

import pytest
from asgiref.sync import sync_to_async
from django.test import Client

from scheduler.api.http.uploads import MANIFEST_BYTES, body_bytes_allowed
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Cluster, CodeFolder
from scheduler.models.queue import Role
from scheduler.services.accounts.tokens import token_create
from tests.integration.api.conftest import World, spec
from tests.support.rows.code import FILES, MANIFEST, digest_of, folder_send
from tests.support.rows.factories import job_make, member_make, queue_make, user_make

CODE = {"manifest": f"sha256:{digest_of()}"}


def submitted(client: Client, queue: str) -> list[str]:
    """Submit a job with the folder; return the pointers of the errors."""
    answer = client.post("/api/v1/jobs", json.dumps(spec(queue=queue, code=CODE)), content_type="application/json")
    return [error["pointer"] for error in answer.json().get("errors", [])]


def missing(client: Client) -> list[str]:
    """Offer the folder; return what is missing."""
    answer = client.post("/api/v1/code", json.dumps(MANIFEST), content_type="application/json")
    found: list[str] = answer.json()["missing"]
    return found


def test_stranger_is_asked_for_everything(world: World) -> None:
    """Whether the store has a content is not told: the answer is the one of an empty store."""
    before = missing(world.client("outsider"))
    folder_send(world.users["member"])

    assert missing(world.client("outsider")) == before
    assert len(before) == len(FILES)


def test_stranger_cannot_use_a_folder_by_its_hash(world: World) -> None:
    """The manifest of another team is unknown, also when it is written into a spec."""
    folder_send(world.users["member"])
    unknown = submitted(world.client("outsider"), "speech")
    CodeFolder.objects.all().delete()

    assert unknown == ["/code/manifest"]
    assert submitted(world.client("outsider"), "speech") == unknown  # as if there were none


def test_whoever_sends_it_may_use_it_and_it_is_stored_once(world: World) -> None:
    """Having the content itself is the right to use it."""
    folder_send(world.users["member"])
    folder_send(world.users["outsider"])

    assert submitted(world.client("outsider"), "speech") == []
    assert CodeFolder.objects.count() == 1


def test_member_may_use_the_folder_of_a_job_of_the_queue(world: World) -> None:
    """Who sees a job may submit it again with its folder; who only knows the queue may not."""
    folder_send(world.users["member"])
    refused = submitted(world.client("lead"), "vision")
    job = job_make(world.vision, state=JobState.QUEUED, owner=world.users["member"])
    job.code = digest_of()
    job.save(update_fields=["code"])

    assert refused == ["/code/manifest"]
    assert submitted(world.client("lead"), "vision") == []


def test_viewers_and_users_without_a_queue_send_nothing(world: World) -> None:
    """What cannot be submitted need not be sent."""
    nobody = Client()
    nobody.force_login(user_make("new"))
    for client in (world.client("viewer"), nobody):
        answer = client.post("/api/v1/code", json.dumps(MANIFEST), content_type="application/json")
        assert answer.status_code == 403


@pytest.mark.django_db(transaction=True)
async def test_only_who_may_send_folders_may_send_much() -> None:
    """Everybody else is cut off at the usual limit, before the body is on disk; the limit is the admin's."""

    def tokens() -> list[tuple[bytes, bytes]]:
        """Return what requests of a member, a viewer and a user without a queue carry."""
        queue = queue_make("vision")
        Cluster.objects.update_or_create(pk=1, defaults={"code_most_bytes": 2**33})
        users = (member_make(queue, Role.MEMBER), member_make(queue, Role.VIEWER), user_make("new"))
        found = []
        for user in users:
            _, text = token_create(actor=user, name="t", scopes=["jobs:write"], expires_at=None, at=datetime.now(UTC))
            found.append((b"authorization", f"Bearer {text}".encode()))
        return found

    member, viewer, new = await sync_to_async(tokens)()

    async def allowed(header: tuple[bytes, bytes], path: str, method: str = "POST") -> int:
        scope = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": [header]}
        return await body_bytes_allowed(scope, 10)

    paths = (f"/api/v1/code/{CODE['manifest']}/blobs", "/api/v1/code/archive", "/jobs/new")
    assert all([await allowed(member, path) > 2**33 for path in paths])
    assert await allowed(member, "/api/v1/code") == MANIFEST_BYTES
    assert [await allowed(header, path) for header in (viewer, new) for path in (*paths, "/api/v1/code")] == [10] * 8
    assert await allowed(member, paths[0], "PUT") == await allowed(member, "/api/v1/code/x/y/blobs") == 10
