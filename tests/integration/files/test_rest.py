"""Files over REST: parts, versions, harmless answers, and downloads that hold nothing they need not."""

import asyncio
import io
import os
import zipfile
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from asgiref.testing import ApplicationCommunicator
from django.core.handlers.asgi import ASGIHandler
from django.test import AsyncClient, Client

from scheduler.api.jobs.files import sending
from scheduler.api.jobs.schemas import openapi_document
from scheduler.models import Job, Membership
from scheduler.selectors.files.archive import MOST_PATHS
from scheduler.selectors.files.names import MOST_PATH
from tests.integration.api.conftest import World, _quiet, world_make  # noqa: F401  (a fixture)
from tests.support.rows.factories import job_make
from tests.support.rows.files import file_write, job_directory

pytestmark = pytest.mark.django_db(transaction=True)
CONTENT = bytes(range(256)) * 10
LARGE_BYTES = 5 * 2**20 + 17


@pytest.fixture(autouse=True)
def _same_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read in the thread that the tests write in: SQLite in memory."""
    monkeypatch.setattr(sending, "in_pool", sync_to_async)


@pytest.fixture
def world(transactional_db: None) -> World:
    """The rows, committed."""
    return world_make()


def url(job: Job, path: str = "") -> str:
    """Return an address of the files of a job."""
    return f"/api/v1/jobs/J-{job.number}/files{path}"


def large(job: Job) -> bytes:
    """Write a file that is sent piece by piece, and return its content."""
    content = os.urandom(LARGE_BYTES)
    file_write(job, "large.bin", content)
    return content


async def streamed(client: AsyncClient, path: str, **headers: str) -> tuple[Any, bytes]:  # Django's streaming answer
    """Return an answer and all its pieces."""
    answer: Any = await client.get(path, headers=headers)
    return answer, b"".join([piece async for piece in answer])


def member_of(world: World) -> AsyncClient:
    """Return the member's browser."""
    client = AsyncClient()
    client.force_login(world.users["member"])
    return client


@pytest.mark.parametrize(
    ("header", "start", "end"),
    [
        ("bytes=0-0", 0, 1),
        ("bytes=10-19", 10, 20),
        ("bytes=2550-", 2550, 2560),
        ("bytes=-5", 2555, 2560),
        ("bytes=-99999", 0, 2560),
        ("bytes=0-999999", 0, 2560),
    ],
)
def test_a_part_is_the_part(world: World, header: str, start: int, end: int) -> None:
    """With where it lies in the whole."""
    file_write(world.job, "a.bin", CONTENT)

    answer = world.client("viewer").get(url(world.job, "/a.bin"), headers={"Range": header})

    assert (answer.status_code, answer.content) == (206, CONTENT[start:end])
    assert answer.headers["Content-Range"] == f"bytes {start}-{end - 1}/2560"
    assert answer.headers["Content-Length"] == str(end - start)


@pytest.mark.parametrize("header", ["bytes=5-2", "bytes=-", "items=0-1", "bytes=0-1,5-6", "bytes=a-b", "0-1"])
def test_a_range_that_says_nothing_gives_the_whole(world: World, header: str) -> None:
    """As RFC 9110 has it; several ranges are not worth their code."""
    file_write(world.job, "a.bin", CONTENT)
    answer = world.client("viewer").get(url(world.job, "/a.bin"), headers={"Range": header})

    assert (answer.status_code, answer.content) == (200, CONTENT)


@pytest.mark.parametrize("header", ["bytes=2560-", "bytes=-0", "bytes=99999-999999"])
def test_a_part_that_is_not_there_is_refused(world: World, header: str) -> None:
    """With the size that there is."""
    file_write(world.job, "a.bin", CONTENT)
    answer = world.client("viewer").get(url(world.job, "/a.bin"), headers={"Range": header})

    assert (answer.status_code, answer.headers["Content-Range"]) == (416, "bytes */2560")


def test_a_download_goes_on_only_in_the_same_version(world: World) -> None:
    """If-Range of a file that was written since gives the whole; If-None-Match of the same one gives nothing."""
    client, path = world.client("viewer"), file_write(world.job, "a.bin", CONTENT)
    etag = client.get(url(world.job, "/a.bin")).headers["ETag"]
    asked = {"Range": "bytes=2000-", "If-Range": etag}

    assert client.get(url(world.job, "/a.bin"), headers=asked).status_code == 206
    assert client.get(url(world.job, "/a.bin"), headers={"If-None-Match": etag}).status_code == 304
    path.write_bytes(CONTENT[::-1])
    os.utime(path, ns=(1, 1))
    changed = client.get(url(world.job, "/a.bin"), headers=asked)
    assert (changed.status_code, changed.content) == (200, CONTENT[::-1])
    assert client.get(url(world.job, "/a.bin"), headers={"If-None-Match": etag}).status_code == 200


def test_head_tells_the_size_without_the_bytes(world: World) -> None:
    """Also of a large file, of which nothing is read."""
    large(world.job)
    answer = world.client("viewer").head(url(world.job, "/large.bin"))

    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["Content-Length"] == str(LARGE_BYTES)


@pytest.mark.parametrize("name", ["page.html", "drawing.svg", "run.js", "picture.png"])
def test_what_a_job_wrote_never_becomes_a_page(world: World, name: str) -> None:
    """Whatever its name or content: a download with a fixed type, in a sandbox, that nothing else may take in."""
    file_write(world.job, name, b"<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>")
    answer = world.client("viewer").get(url(world.job, f"/{name}"))

    assert answer.headers["Content-Type"] == "application/octet-stream"
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{name}"'
    assert answer.headers["X-Content-Type-Options"] == "nosniff"
    assert answer.headers["Content-Security-Policy"] == "default-src 'none'; sandbox; frame-ancestors 'none'"
    assert world.client("viewer").get(url(world.job, f"/{name}?picture=true")).status_code == 404


def test_a_picture_is_told_by_its_bytes(world: World) -> None:
    """And says so, within the same bounds."""
    file_write(world.job, "loss.txt", b"\x89PNG\r\n\x1a\n....")
    os.truncate(file_write(world.job, "huge.png", b"\x89PNG\r\n\x1a\n"), 9 * 2**20)
    answer = world.client("viewer").get(url(world.job, "/loss.txt?picture=true"))

    assert (answer.status_code, answer.headers["Content-Type"]) == (200, "image/png")
    assert "sandbox" in answer.headers["Content-Security-Policy"]
    assert "8 MiB" in world.client("viewer").get(url(world.job, "/huge.png?picture=true")).json()["detail"]


def test_names_that_no_header_could_hold(world: World) -> None:
    """Line ends and quotes in the name of a download."""
    file_write(world.job, 'a"\r\nSet-Cookie: x=1.txt', b"1")
    row = world.client("viewer").get(url(world.job)).json()["results"][0]
    answer = world.client("viewer").get(url(world.job, f"/{row['path'].replace('%', '%25')}"))

    assert (answer.status_code, answer.content) == (200, b"1")
    assert "Set-Cookie" not in answer.headers
    assert "%0D%0A" in answer.headers["Content-Disposition"]


def test_files_of_another_job_are_out_of_reach(world: World) -> None:
    """Whatever the path; the list of a job without files says why."""
    other = job_make(world.speech, name="other")
    file_write(other, "secret", b"canary")
    file_write(world.job, "a", b"1")
    client = world.client("viewer")

    for path in (f"/../../{other.pk}/dir/secret", "/%2e%2e/%2e%2e/laid.json", "/a/../a", "/"):
        assert client.get(url(world.job, path)).status_code == 404
    assert client.get(url(other)).status_code == 404
    assert "not started" in world.client("outsider").get(url(job_make(world.speech, name="new"))).json()["reason"]


async def test_large_files_come_in_pieces(world: World) -> None:
    """All of them, in order, and parts as well; descriptors are given back."""
    content = await sync_to_async(large)(world.job)
    client = await sync_to_async(member_of)(world)
    opened = len(os.listdir("/proc/self/fd"))
    whole, got = await streamed(client, url(world.job, "/large.bin"))
    part, rest = await streamed(client, url(world.job, "/large.bin"), Range="bytes=1000000-")

    assert (got, rest) == (content, content[1_000_000:])
    assert (whole.status_code, part.status_code) == (200, 206)
    assert part.headers["Content-Range"] == f"bytes 1000000-{LARGE_BYTES - 1}/{LARGE_BYTES}"
    assert len(os.listdir("/proc/self/fd")) == opened


async def test_a_zip_holds_all_files(world: World) -> None:
    """Also of one folder; a folder that is not there is told before anything is sent."""
    await sync_to_async(file_write)(world.job, "out/a.txt", b"1")
    await sync_to_async(file_write)(world.job, "b.txt", b"2")
    client = await sync_to_async(member_of)(world)
    path = f"/api/v1/jobs/J-{world.job.number}/archive"
    answer, everything = await streamed(client, path)
    _, folder = await streamed(client, f"{path}?path=out")

    assert answer.headers["Content-Disposition"] == f'attachment; filename="J-{world.job.number}.zip"'
    assert zipfile.ZipFile(io.BytesIO(everything)).namelist() == ["b.txt", "out/a.txt"]
    assert zipfile.ZipFile(io.BytesIO(folder)).namelist() == ["a.txt"]
    assert (await client.get(f"{path}?path=nowhere")).status_code == 404


async def test_a_zip_holds_what_is_chosen(world: World) -> None:
    """`path` may be given several times; each is looked at as a single one, and there is a most."""
    for name in ("out/a.txt", "out/deep/c.txt", "b.txt", "c.txt"):
        await sync_to_async(file_write)(world.job, name, b"1")
    await sync_to_async((await sync_to_async(job_directory)(world.job) / "link").symlink_to)("b.txt")
    client = await sync_to_async(member_of)(world)
    path = f"/api/v1/jobs/J-{world.job.number}/archive"
    answer, several = await streamed(client, f"{path}?path=out/a.txt&path=b.txt&path=out")
    _, one = await streamed(client, f"{path}?path=b.txt")
    refused = [await client.get(f"{path}?path=out&path={bad}") for bad in ("../b.txt", "out/../b.txt", "link", "z")]
    many = await client.get(f"{path}?{'&'.join(['path=b.txt'] * (MOST_PATHS + 1))}")

    assert answer.headers["Content-Disposition"] == f'attachment; filename="J-{world.job.number}-selected.zip"'
    assert zipfile.ZipFile(io.BytesIO(several)).namelist() == ["b.txt", "out/a.txt", "out/deep/c.txt"]
    assert zipfile.ZipFile(io.BytesIO(one)).namelist() == ["b.txt"]
    assert [one.status_code for one in refused] == [404] * 4
    assert "link is a link" in refused[2].json()["detail"]
    assert (many.status_code, many.json()["errors"][0]["code"]) == (400, "repeated")
    assert f"path may be given {MOST_PATHS} times at most." in many.json()["errors"][0]["detail"]


@pytest.mark.parametrize(("role", "status"), [("viewer", 200), ("outsider", 404)])
async def test_a_choice_is_for_all_who_see_the_job(world: World, role: str, status: int) -> None:
    """As a single file is; a job that the reader may not see has no files either way."""
    for name in ("a", "b"):
        await sync_to_async(file_write)(world.job, name, b"1")
    client = AsyncClient()
    await sync_to_async(client.force_login)(world.users[role])
    answer: Any = await client.get(f"/api/v1/jobs/J-{world.job.number}/archive?path=a&path=b")
    await sync_to_async(answer.close)()

    assert answer.status_code == status


def test_the_document_says_that_path_may_be_repeated() -> None:
    """Clients that are made from it send it several times."""
    of_archive = openapi_document()["paths"]["/api/v1/jobs/{job}/archive"]["get"]
    (path,) = (one for one in of_archive["parameters"] if one["name"] == "path")

    assert path["in"] == "query"
    assert path["schema"] == {
        "type": "array",
        "items": {"type": "string", "maxLength": MOST_PATH},
        "maxItems": MOST_PATHS,
    }


async def test_a_reader_whose_right_ends_gets_no_more(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The right is looked at again on the way."""
    monkeypatch.setattr(sending, "RIGHTS_AGAIN_S", 0.0)
    await sync_to_async(large)(world.job)
    client = await sync_to_async(member_of)(world)
    answer: Any = await client.get(url(world.job, "/large.bin"))
    pieces: AsyncIterator[bytes] = aiter(answer)
    await anext(pieces)
    await sync_to_async(Membership.objects.filter(user=world.users["member"]).delete)()

    with pytest.raises(ConnectionAbortedError):
        await anext(pieces)


async def test_one_user_has_some_downloads_at_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """One more is refused with what to do, until one ends."""
    monkeypatch.setattr(sending, "MOST_DOWNLOADS", 1)
    await sync_to_async(large)(world.job)
    client = await sync_to_async(member_of)(world)
    first: Any = await client.get(url(world.job, "/large.bin"))
    second = await client.get(url(world.job, "/large.bin"))
    await sync_to_async(first.close)()
    third, got = await streamed(client, url(world.job, "/large.bin"))

    assert second.status_code == 429
    assert "have 1 downloads open" in second.json()["detail"]
    assert (third.status_code, len(got)) == (200, LARGE_BYTES)


async def test_a_reader_who_leaves_holds_nothing(world: World) -> None:
    """Neither descriptors nor the slot, when the connection ends in the middle."""
    await sync_to_async(large)(world.job)
    await sync_to_async(job_directory)(world.job)
    client = await sync_to_async(member_of)(world)
    opened = len(os.listdir("/proc/self/fd"))
    scope = {
        "type": "http",
        "method": "GET",
        "path": url(world.job, "/large.bin"),
        "query_string": b"",
        "headers": [(b"host", b"testserver"), (b"cookie", client.cookies.output(header="", sep=";").strip().encode())],
    }
    communicator: Any = ApplicationCommunicator(ASGIHandler(), scope)  # type: ignore[no-untyped-call]  # untyped
    await communicator.send_input({"type": "http.request", "body": b""})
    assert (await communicator.receive_output(60))["status"] == 200
    await communicator.send_input({"type": "http.disconnect"})
    await communicator.wait(60)
    for _ in range(1000):
        if len(os.listdir("/proc/self/fd")) <= opened:
            break
        await asyncio.sleep(0.01)

    assert len(os.listdir("/proc/self/fd")) <= opened


def test_the_list_is_for_all_who_see_the_job(world: World) -> None:
    """A viewer reads logs, and so files; a role in another queue reads neither."""
    file_write(world.job, "out/a.txt", b"1")
    answers = {role: world.client(role).get(url(world.job)).status_code for role in ("viewer", "outsider")}
    token = Client().get(url(world.job), headers=world.bearer("viewer", "jobs:read"))

    assert answers == {"viewer": 200, "outsider": 404}
    assert token.json() == {
        "path": "",
        "results": [{**token.json()["results"][0], "name": "out", "path": "out", "kind": "folder", "size_bytes": None}],
        "next": None,
        "reason": "",
    }
