"""Following a log: everything once, in order, from where the reader was, until the end."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import SyncToAsync, sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from django.db import OperationalError
from django.test import AsyncClient

from scheduler.api.jobs import log_stream as job_log_stream
from scheduler.api.jobs.log_stream import in_pool
from scheduler.core.model.lifecycle import JobState
from scheduler.models import Attempt, GangMember, Membership
from scheduler.selectors.visibility import require_job
from tests.integration.api.conftest import World, world_make
from tests.support.rows.factories import AT, attempt_make, gang_make, job_move

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look often, so that the tests need not wait, and in the thread that the tests write in: SQLite in memory."""
    monkeypatch.setattr(job_log_stream, "in_pool", sync_to_async)
    monkeypatch.setattr(job_log_stream, "POLL_S", 0.01)
    monkeypatch.setattr(job_log_stream, "STATE_AGAIN_S", 0.0)
    monkeypatch.setattr(job_log_stream, "RIGHTS_AGAIN_S", 0.0)


@pytest.fixture
def world(transactional_db: None) -> World:
    """The rows, committed: a stream reads them in a thread of its own."""
    return world_make()


def log_of(attempt: Attempt | GangMember) -> Path:
    """Return the first segment of the log of an attempt, or of a process of a gang."""
    directory = Path(settings.SHARED_DIR) / "attempts" / attempt.pk
    directory.mkdir(parents=True, exist_ok=True)
    return directory / f"log.{0:020d}"


def write(path: Path, text: str) -> None:
    """Append to a log."""
    with path.open("a") as file:
        file.write(text)


class Reader:
    """One reader of one stream."""

    def __init__(self, response: Any) -> None:
        self.response = response
        self._parts: AsyncIterator[bytes] = aiter(response)

    async def event(self) -> dict[str, Any]:
        """Return the next event or comment."""
        text = (await asyncio.wait_for(anext(self._parts), timeout=300)).decode()
        assert text.endswith("\n\n")
        if text.startswith(":"):
            return {"comment": text.strip()}
        fields = dict(line.split(": ", 1) for line in text.strip().splitlines())
        return {"kind": fields["event"], "id": fields["id"], **json.loads(fields["data"])}

    async def text(self, length: int) -> str:
        """Return the text of the following ``log`` events once there is so much of it."""
        found = ""
        while len(found) < length:
            found += (await self.event())["text"]
        return found

    async def rest(self) -> list[dict[str, Any]]:
        """Return every event up to the end of the stream."""
        events = []
        try:
            while True:
                events.append(await self.event())
        except StopAsyncIteration:
            return events


async def follow(world: World, query: str = "", role: str = "member", **headers: str) -> Reader:
    """Open the stream of the job."""
    client = AsyncClient()
    await client.aforce_login(world.users[role])
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    response = await client.get(f"/api/v1/jobs/{world.job.pk}/logs/stream{query}", headers=named)
    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/event-stream"
    return Reader(response)


async def attempt_of(world: World) -> Attempt:
    """Return the open attempt."""
    return await Attempt.objects.aget(job=world.job)


async def move(world: World, to: JobState) -> None:
    """Move the job by the real service."""
    await sync_to_async(job_move)(world.job, to, at=AT)


async def test_lines_arrive_as_they_are_written_and_the_end_is_told(world: World) -> None:
    """A reader misses nothing between the first line and the end of the job."""
    log = log_of(await attempt_of(world))
    write(log, "one\n")
    reader = await follow(world)

    first = await reader.event()
    write(log, "two: ü\n")
    second = await reader.event()
    write(log, "three\n")
    await move(world, JobState.COMPLETED)
    rest = await reader.rest()

    assert [first["text"], first["id"], first["start_offset"]] == ["one\n", "1-4", 0]
    assert [second["text"], second["id"]] == ["two: ü\n", "1-12"]
    assert "".join(event["text"] for event in rest[:-1]) == "three\n"
    assert rest[-1] == {"kind": "end", "id": "end", "state": "completed"}


async def test_reader_that_comes_back_goes_on_where_it_was(world: World) -> None:
    """``Last-Event-ID`` names the byte after the last that arrived."""
    write(log_of(await attempt_of(world)), "one\ntwo\nthree\n")
    await move(world, JobState.COMPLETED)

    events = await (await follow(world, Last_Event_ID="1-4")).rest()

    assert events[0]["text"] == "two\nthree\n"
    assert events[-1]["kind"] == "end"


async def test_browser_that_saw_the_end_is_told_to_stop(world: World) -> None:
    """An EventSource reconnects for ever unless it is answered 204."""
    client = AsyncClient()
    await client.aforce_login(world.users["member"])

    answer = await client.get(f"/api/v1/jobs/{world.job.pk}/logs/stream", headers={"Last-Event-ID": "end"})

    assert answer.status_code == 204


async def test_stream_begins_near_the_end_or_at_an_offset(world: World) -> None:
    """A long log is not sent whole to somebody who wants its end."""
    write(log_of(await attempt_of(world)), "one\ntwo\nthree\n")
    await move(world, JobState.COMPLETED)

    tail = await (await follow(world, "?tail=1")).rest()
    offset = await (await follow(world, "?offset=4")).rest()

    assert tail[0]["text"] == "three\n"
    assert offset[0]["text"] == "two\nthree\n"


async def test_stream_goes_on_with_the_next_attempt(world: World) -> None:
    """A preempted job's log continues where the job does; one attempt alone ends with it."""
    write(log_of(await attempt_of(world)), "first run\n")
    await move(world, JobState.PREEMPTING)
    await move(world, JobState.QUEUED)
    whole, one = await follow(world), await follow(world, "?attempt=1")
    before = await whole.text(len("first run\n"))
    following = await sync_to_async(attempt_make)(world.job, server=world.server)
    await move(world, JobState.LAUNCHING)
    write(log_of(following), "second run\n")
    after = await whole.event()
    await move(world, JobState.RUNNING)
    await move(world, JobState.COMPLETED)

    assert before == "first run\n"
    assert [after["text"], after["id"]] == ["second run\n", "2-11"]
    assert (await whole.rest())[-1]["kind"] == "end"
    assert [event["kind"] for event in await one.rest()] == ["log", "end"]


async def test_stream_of_a_rank_is_its_own(world: World) -> None:
    """Each process of a gang writes a log; the others' lines are not among it, neither those there nor later ones."""
    attempt = await attempt_of(world)
    other = await sync_to_async(gang_make)(attempt)
    write(log_of(attempt), "of rank 0, which is longer\n")
    write(log_of(other), "of rank 1\n")
    first, second = await follow(world, "?rank=0"), await follow(world, "?rank=1")
    begun = [(await reader.event())["text"] for reader in (first, second)]
    write(log_of(other), "again\n")
    later = (await second.event())["text"]
    await move(world, JobState.COMPLETED)

    assert begun == ["of rank 0, which is longer\n", "of rank 1\n"]
    assert later == "again\n"
    assert [event["kind"] for event in await first.rest()] == ["end"]


async def test_quiet_stream_carries_a_comment(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Proxies cut what is silent."""
    monkeypatch.setattr(job_log_stream, "HEARTBEAT_S", 0.05)
    reader = await follow(world)

    assert "comment" in await reader.event()
    await move(world, JobState.CANCELLED)


async def test_stream_ends_when_the_right_to_read_ends(world: World) -> None:
    """A role that is taken away, a session that is ended: nothing more is sent."""
    log = log_of(await attempt_of(world))
    write(log, "one\n")
    by_role, by_session = await follow(world, role="viewer"), await follow(world)
    await by_role.event()
    await by_session.event()
    await Membership.objects.filter(user=world.users["viewer"]).adelete()
    await sync_to_async(world.users["member"].set_password)("another-password")
    await world.users["member"].asave()

    write(log, "secret\n")

    for reader in (by_role, by_session):
        assert "secret" not in "".join(event.get("text", "") for event in await reader.rest())


async def test_follower_holds_no_thread_while_it_waits(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Under the real ASGI handler, a thousand open logs are not a thousand threads."""
    monkeypatch.setattr(job_log_stream, "in_pool", in_pool)
    write(log_of(await attempt_of(world)), "one\n")
    headers = await sync_to_async(world.bearer)("member")
    path = f"/api/v1/jobs/{world.job.pk}/logs/stream"
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "GET",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"host", b"localhost"), (b"authorization", headers["Authorization"].encode())],
        "client": ("127.0.0.1", 5),
        "server": ("127.0.0.1", 80),
    }
    communicator: Any = ApplicationCommunicator  # asgiref has no types for it
    reader = communicator(ASGIHandler(), scope)
    await reader.send_input({"type": "http.request", "body": b"", "more_body": False})

    start, part = await reader.receive_output(10), await reader.receive_output(10)
    held = len(SyncToAsync.context_to_thread_executor)
    await reader.send_input({"type": "http.disconnect"})
    await reader.wait(300)

    assert start["status"] == 200
    assert b"one" in part["body"]
    assert held == 0


async def test_waiting_job_is_followed_into_its_first_attempt(world: World) -> None:
    """One may begin to follow before there is anything to read."""
    await sync_to_async(world.job.attempts.all().delete)()
    reader = await follow(world)
    attempt = await sync_to_async(attempt_make)(world.job)
    write(log_of(attempt), "begun\n")

    assert (await reader.event())["text"] == "begun\n"


async def test_streams_of_one_user_are_counted(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One too many is told what to do; a stream that has ended makes room."""
    monkeypatch.setattr(job_log_stream, "MOST_STREAMS", 1)
    write(log_of(await attempt_of(world)), "one\n")
    reader = await follow(world)
    await reader.event()
    client = AsyncClient()
    await client.aforce_login(world.users["member"])
    refused = await client.get(f"/api/v1/jobs/{world.job.pk}/logs/stream")
    other = await follow(world, role="lead")
    await other.event()
    await move(world, JobState.COMPLETED)
    await reader.rest()
    await other.rest()

    assert refused.status_code == 429
    assert int(refused.headers["Retry-After"]) > 0
    assert "Close one" in refused.json()["detail"]
    assert (await (await follow(world)).event())["kind"] == "log"


async def test_reader_who_leaves_makes_room(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed window counts no longer."""
    monkeypatch.setattr(job_log_stream, "MOST_STREAMS", 1)
    write(log_of(await attempt_of(world)), "one\n")
    reader = await follow(world)
    await reader.event()
    waits = asyncio.create_task(reader.event())
    await asyncio.sleep(0)
    waits.cancel()  # as Django does when the browser has gone
    await asyncio.wait({waits})

    assert (await (await follow(world)).event())["kind"] == "log"


async def test_stream_outlives_a_connection_that_the_database_ended(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look runs outside requests, where Django ends no broken connection: else every later one would fail, too."""
    looks: list[str] = []

    def look(*arguments: Any) -> Any:
        looks.append("look")
        if looks == ["look"]:
            raise OperationalError("terminating connection due to administrator command")
        return require_job(*arguments)

    monkeypatch.setattr(job_log_stream, "require_job", look)
    monkeypatch.setattr(job_log_stream, "close_old_connections", lambda: looks.append("connection"))
    write(log_of(await attempt_of(world)), "one\n")

    assert (await (await follow(world)).event())["text"] == "one\n"
    assert looks[:3] == ["look", "connection", "look"]
    await move(world, JobState.COMPLETED)
