"""Uploaded traces: written to disk piece by piece, bounded, refused with the row that is wrong, forgotten for good."""

import gzip
import io
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from clusterweb.config.trace_limits import TraceLimits
from scheduler import notify
from scheduler.api.http import uploads
from scheduler.api.http.uploads import body_bytes_allowed
from scheduler.core.model.errors import Conflict, NotAllowed, SpecInvalid
from scheduler.models import TraceFile
from scheduler.models.queue import Role
from scheduler.selectors.whatif import trace_file_path
from scheduler.services.accounts.tokens import token_create
from scheduler.services.whatif import files
from scheduler.services.whatif.files import trace_file_create, trace_file_delete
from scheduler.simulator.traces import read_trace
from tests.support.live.ports import MemoryBell
from tests.support.rows.factories import AT, member_make, queue_make, user_make
from tests.support.rows.scenarios import TRACE, scenario_make, trace_read_here

pytestmark = pytest.mark.django_db
HEADER = b"arrival_s,run_s,num_gpus,name\n"  # long names, so that a large file has few rows
ROW = b"%d,100,1," + b"a" * 900 + b"-%d\n"


@pytest.fixture(autouse=True)
def _quiet(settings: Any, tmp_path: Path) -> Iterator[None]:
    """Static files as they lie in the tree, no broker."""
    settings.STATIC_ROOT = tmp_path
    plain = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STORAGES = {**settings.STORAGES, "staticfiles": plain}
    notify.use_bell(MemoryBell())
    yield
    notify.use_bell(None)


@pytest.fixture(autouse=True)
def _read_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "trace_accepted", trace_read_here)


@pytest.fixture(autouse=True)
def folder(settings: Any, tmp_path: Path) -> Iterator[Path]:
    """Where the traces of this test are."""
    settings.TRACES_DIR = tmp_path / "traces"
    yield settings.TRACES_DIR
    assert not list(settings.TRACES_DIR.glob("*.partial")), "what was refused stayed on disk"


def rows(count: int) -> bytes:
    """Return a trace of nearly a kilobyte a row."""
    return HEADER + b"".join(ROW % (at, at) for at in range(count))


def kept(content: bytes, name: str = "small.csv") -> TraceFile:
    """Upload a trace as an admin."""
    return trace_file_create(actor=user_make(admin=True), name=name, content=io.BytesIO(content), at=AT)


def refused(content: bytes) -> str:
    """Return why an upload is refused; nothing is kept of it."""
    with pytest.raises(SpecInvalid) as error:
        kept(content)
    assert not TraceFile.objects.exists()
    return error.value.errors[0].detail


def test_large_trace_is_kept_as_it_was_sent() -> None:
    """More than fits a request of any other kind; what comes back is what was sent, plain and packed."""
    content = rows(10_000)
    assert len(content) > 8 * 2**20

    plain, packed = kept(content), kept(gzip.compress(content, 1), "month.csv.gz")

    assert trace_file_path(plain).read_bytes() == content
    assert packed.num_bytes == trace_file_path(packed).stat().st_size < len(content)
    assert len(read_trace(trace_file_path(packed)).jobs) == 10_000


def test_wrong_row_is_named_before_anything_is_kept() -> None:
    """The line, the column, what is there and what would be right; in a packed file too."""
    bad = TRACE + b"40,soon,1\n"

    assert "small.csv, line 5, column run_s: found 'soon', expected a number of seconds" in refused(bad)
    assert "line 5, column run_s" in refused(gzip.compress(bad))
    assert "It begins like none of the formats" in refused(b"hello\n")
    assert refused(b"") == "The file is empty."


def test_only_so_much_is_taken(settings: Any) -> None:
    """A file, what it unpacks to, its rows, and all files of one user have limits."""
    settings.TRACE_MOST_MIB = 1
    settings.TRACE_LIMITS = TraceLimits(most_unpacked_mib=3, most_rows=2_000)
    user, content = user_make(admin=True), rows(1_200)

    assert "at most 1 MiB" in refused(content)
    assert "unpacks to more than 3 MiB" in refused(gzip.compress(b"0" * 2**22))
    assert "2,001 rows; a trace may have at most 2,000." in refused(HEADER + b"0,1,1,\n" * 2_001)
    assert "ends too early" in refused(gzip.compress(TRACE)[:-9])
    assert "is broken" in refused(gzip.compress(TRACE)[:-8] + b"12345678")
    most = content[: 2**20 - 9].rpartition(b"\n")[0]
    for _ in range(4):
        trace_file_create(actor=user, name="a.csv", content=io.BytesIO(most), at=AT)
    with pytest.raises(Conflict, match="more than 4 MiB"):
        trace_file_create(actor=user, name="a.csv", content=io.BytesIO(most), at=AT)


@pytest.mark.parametrize("role", [Role.VIEWER, Role.MEMBER])
def test_members_upload_nothing(role: Role, folder: Path) -> None:
    """Nothing of it reaches the disk."""
    with pytest.raises(NotAllowed):
        trace_file_create(actor=member_make(queue_make("vision"), role), name="a", content=io.BytesIO(TRACE), at=AT)

    assert not folder.exists()


def test_deleted_trace_is_gone_from_the_disk(django_capture_on_commit_callbacks: Any) -> None:
    """Its bytes go with it; one that a scenario starts from stays."""
    user = user_make(admin=True)
    file, used = (
        trace_file_create(actor=user, name=name, content=io.BytesIO(TRACE), at=AT) for name in ("a.csv", "b.csv")
    )
    asked = scenario_make(user, start={"kind": "trace", "file": used.pk})
    asked.trace_file = used
    asked.save()
    path = trace_file_path(file)

    with django_capture_on_commit_callbacks(execute=True):
        trace_file_delete(actor=user, file=file, at=AT)
    with pytest.raises(Conflict, match="Delete the scenario first"):
        trace_file_delete(actor=user, file=used, at=AT)

    assert not path.exists()
    assert trace_file_path(used).exists()


def test_page_uploads_and_deletes_and_another_lead_finds_nothing() -> None:
    """The list shows the file and says what is wrong; what belongs to others does not exist."""
    queue = queue_make("vision")
    lead, other = member_make(queue, Role.LEAD), member_make(queue, Role.LEAD)
    clients = {user: Client() for user in (lead, other)}
    for user, client in clients.items():
        client.force_login(user)

    clients[lead].post("/whatif/traces", {"upload": SimpleUploadedFile("small.csv", TRACE)})
    bad = clients[lead].post("/whatif/traces", {"upload": SimpleUploadedFile("bad.csv", b"x\n")}, follow=True)
    file = TraceFile.objects.get()
    others = clients[other].post("/whatif/traces", {"delete": file.pk})

    assert b"It begins like none of the formats" in bad.content
    assert b"small.csv" in bad.content
    assert b"small.csv" not in clients[other].get("/whatif").content
    assert others.status_code == 404
    clients[lead].post("/whatif/traces", {"delete": file.pk})
    assert not TraceFile.objects.exists()


@pytest.mark.django_db(transaction=True)
async def test_only_who_may_upload_may_send_much() -> None:
    """Everybody else is cut off at the usual limit, before the body is on disk."""

    def credentials() -> list[tuple[bytes, bytes]]:
        """Return what requests of a lead and of a member carry: a token each, and the session of the lead."""
        queue = queue_make("vision")
        lead, member = member_make(queue, Role.LEAD), member_make(queue, Role.MEMBER)
        found = []
        for user in (lead, member):
            _, text = token_create(actor=user, name="t", scopes=["whatif"], expires_at=None, at=datetime.now(UTC))
            found.append((b"authorization", f"Bearer {text}".encode()))
        browser = Client()
        browser.force_login(lead)
        return [*found, (b"cookie", f"sessionid={browser.cookies['sessionid'].value}".encode())]

    by_token, of_member, by_session = await sync_to_async(credentials)()

    async def allowed(header: tuple[bytes, bytes] | None, path: str = "/api/v1/whatif/traces") -> int:
        headers = [header] if header else []
        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
        return await body_bytes_allowed(scope, 10)

    assert await allowed(by_token) > 256 * 2**20
    assert await allowed(by_session, "/whatif/traces") > 256 * 2**20
    assert [await allowed(header) for header in (of_member, None, (b"authorization", b"Bearer cw_nobody"))] == [10] * 3
    assert await allowed(by_token, "/api/v1/jobs") == 10


async def test_check_before_an_upload_gets_a_live_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """It runs outside requests, where Django looks at no connection: one that PostgreSQL has ended stays for ever."""
    looked: list[str] = []
    monkeypatch.setattr("channels.db.close_old_connections", lambda: looked.append("connection"))
    monkeypatch.setattr(uploads, "may_ask_what_if", lambda user: looked.append("right"))
    scope = {"type": "http", "method": "POST", "path": "/whatif/traces", "query_string": b"", "headers": []}
    await uploads.body_bytes_allowed(scope, 10)

    assert looked == ["connection", "right", "connection"]
