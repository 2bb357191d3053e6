"""Uploads that are small and hold much, or break what reads them: refused with a reason, at no cost to web."""

import gzip
import io
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from django.test import Client

from clusterweb.config.trace_limits import TraceLimits
from scheduler.core.model.errors import Conflict, FieldError, SpecInvalid
from scheduler.models import TraceFile
from scheduler.services.whatif import trace_process
from scheduler.services.whatif.files import trace_file_create
from tests.support.rows.factories import AT, user_make
from tests.support.rows.scenarios import TRACE

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("processes")]
# What this process may grow by beside a bomb, which takes gigabytes; it reads and writes files meanwhile.
FLAT_BYTES = 64 * 2**20
SECRETS = {
    "SECRET_KEY": "canary",
    "REDIS_URL": "redis://canary",
    "DATABASE_URL": "postgres://canary",
    "POSTGRES_PASSWORD": "canary",
    "OIDC_CLIENT_SECRET": "canary",
    "EMAIL_URL": "smtp://canary",
}


@pytest.fixture(autouse=True)
def folder(settings: Any, tmp_path: Path) -> Iterator[Path]:
    """Where the traces of this test are; nothing of a refused one stays."""
    settings.TRACES_DIR = tmp_path / "traces"
    yield settings.TRACES_DIR
    assert not list(settings.TRACES_DIR.glob("*.partial"))


def refused(content: bytes, name: str = "trace") -> FieldError:
    """Return why an upload is refused; nothing is kept of it."""
    with pytest.raises(SpecInvalid) as error:
        trace_file_create(actor=user_make(admin=True), name=name, content=io.BytesIO(content), at=AT)
    assert not TraceFile.objects.exists()
    return error.value.errors[0]


@contextmanager
def growth() -> Iterator[list[int]]:
    """Give a list whose one number is by how many bytes this process grew at most in the block."""
    process, over, most = psutil.Process(), threading.Event(), [0]
    before = process.memory_info().rss

    def watch() -> None:
        while not over.wait(0.005):
            most[0] = max(most[0], process.memory_info().rss - before)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield most
    finally:
        over.set()
        watcher.join()


def equal_rows(count: int) -> bytes:
    """Return a Parquet file of equal jobs, a million in each group."""
    group = pa.table({"arrival_s": [0] * 10**6, "num_gpus": [1] * 10**6, "run_s": [60.0] * 10**6})
    file = io.BytesIO()
    with pq.ParquetWriter(file, group.schema, compression="zstd") as writer:
        for _ in range(count // 10**6):
            writer.write_table(group)
    return file.getvalue()


def long_names(*, as_written: bool) -> bytes:
    """Return a Parquet file of 8,000 jobs that share one name of 4 MB, which stands in it once."""
    count = 8_000
    names = pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array(["a" * 4_000_000]))
    table = pa.table({"arrival_s": [0] * count, "num_gpus": [1] * count, "run_s": [60.0] * count, "name": names})
    file = io.BytesIO()
    pq.write_table(table, file, compression="zstd", store_schema=as_written)
    return file.getvalue()


def test_rows_in_the_footer_refuse_a_small_file_with_many() -> None:
    """By REST: 70 million rows in less than a megabyte, before any is read."""
    content, client = equal_rows(70_000_000), Client()
    assert len(content) < 10**6
    client.force_login(user_make(admin=True))

    with growth() as grown:
        answer = client.post("/api/v1/whatif/traces?name=bomb", content, content_type="application/octet-stream")

    assert (answer.status_code, answer.json()["errors"]) == (
        400,
        [
            {
                "pointer": "/file",
                "code": "rows",
                "detail": "It has 70,000,000 rows; a trace may have at most 2,000,000. Upload a part of it.",
            }
        ],
    )
    assert grown[0] < FLAT_BYTES


@pytest.mark.parametrize("as_written", [True, False])
def test_memory_of_the_reader_is_limited(as_written: bool, settings: Any) -> None:
    """What its footer does not tell: 32 GB of names in a file of some kilobytes."""
    settings.TRACE_LIMITS = TraceLimits(read_mib=1024)
    content = long_names(as_written=as_written)
    assert len(content) < 10**6

    with growth() as grown:
        why = refused(content)

    assert (why.code, why.detail) == ("memory", "Reading it takes more than 1,024 MiB of memory.")
    assert grown[0] < FLAT_BYTES


def test_time_of_the_reader_is_limited(settings: Any) -> None:
    """A gigabyte of zeros in many gzip members is still being unpacked when the time is over."""
    settings.TRACE_LIMITS = TraceLimits(read_s=1, most_unpacked_mib=65_536)
    content = gzip.compress(TRACE + b" " * 2**24) * 400

    with growth() as grown:
        why = refused(content)

    assert why.code == "time"
    assert why.detail == "Reading it takes more than 1 s of processor time, or 4 s in all. Upload a part of it."
    assert grown[0] < FLAT_BYTES


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("is killed", "time"),
        ("sleeps", "time"),
        ("breaks", "reading"),
        ("is silent", "reading"),
        ("nests", "reading"),
        ("babbles", "reading"),
    ],
)
def test_reader_that_goes_wrong_refuses_the_file(
    name: str, code: str, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed, hanging, broken, without an answer, with one that is none, with one without end."""
    settings.TRACE_LIMITS = TraceLimits(read_s=1)
    monkeypatch.setattr(trace_process, "MODULE", "tests.support.live.odd_readers")
    before = set(psutil.Process().children())  # of tests that this worker ran before

    why = refused(TRACE, name)

    assert (why.pointer, why.code) == ("/file", code)
    left = set(psutil.Process().children()) - before
    assert not [child for child in left if child.status() != psutil.STATUS_ZOMBIE]


def test_reader_is_told_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its environment has what programs need to run, and nothing that opens a door."""
    monkeypatch.setattr(trace_process, "MODULE", "tests.support.live.odd_readers")
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)

    told = json.loads(refused(TRACE, "tells its environment").detail)

    assert "canary" not in json.dumps(told)
    assert not set(told) & {*SECRETS, "VAR_DIR", "DJANGO_SETTINGS_MODULE"}


def test_only_two_traces_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next one waits, and is told to come back when that takes too long."""
    monkeypatch.setattr(trace_process, "WALL_FACTOR", 0)
    monkeypatch.setattr(trace_process, "_slots", threading.BoundedSemaphore(2))
    for _ in range(2):
        trace_process._slots.acquire()

    with pytest.raises(Conflict, match="Upload this one again in a minute"):
        trace_file_create(actor=user_make(admin=True), name="a", content=io.BytesIO(TRACE), at=AT)
