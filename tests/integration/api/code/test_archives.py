"""A folder as a zip or tar: twelve and more hostile ones are refused with the name of the entry, and nothing stays."""

import gzip
import io
import stat
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from scheduler.models import Cluster, CodeFolder
from scheduler.services.code import archives
from scheduler.services.limited_child import child_answer
from tests.integration.api.conftest import World
from tests.support.rows.code import ARCHIVE, FILES, digest_of, zip_of

OCTETS = "application/octet-stream"


def post(client: Client, body: bytes) -> Any:
    """Send an archive; return the answer."""
    return client.post("/api/v1/code/archive", body, content_type=OCTETS)


def tar_of(*entries: tarfile.TarInfo | tuple[tarfile.TarInfo, bytes], mode: str = "w") -> bytes:
    """Return a tar with these entries."""
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode=mode) as archive:  # type: ignore[call-overload]  # any mode
        for entry in entries:
            info, content = entry if isinstance(entry, tuple) else (entry, b"")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return target.getvalue()


def entry(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", mode: int = 0o644) -> tarfile.TarInfo:
    """Return an entry of a tar."""
    info = tarfile.TarInfo(name)
    info.type, info.linkname, info.mode = kind, target, mode
    return info


def zip_entry(name: str, mode: int, content: bytes = b"") -> bytes:
    """Return a zip with one entry of this mode."""
    info = zipfile.ZipInfo(name)
    info.external_attr = mode << 16
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr(info, content)
    return target.getvalue()


def zip_with_a_password() -> bytes:
    """Return a zip whose entry says that it is encrypted."""
    body = bytearray(zip_of({"secret.py": b"x"}))
    for mark, place in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        body[body.index(mark) + place] |= 1
    return bytes(body)


HOSTILE: dict[str, tuple[Callable[[], bytes], str]] = {
    "zip, traversal": (lambda: zip_of({"a.py": b"", "../../evil.py": b"x"}), "../../evil.py leads out"),
    "tar, traversal": (lambda: tar_of((entry("src/../../evil.py"), b"x")), "src/../../evil.py leads out"),
    "zip, absolute": (lambda: zip_of({"/etc/evil": b"x"}), "/etc/evil is an absolute path"),
    "tar, folder out of it": (lambda: tar_of(entry("../evil", tarfile.DIRTYPE)), "../evil leads out"),
    "tar, link out of it": (lambda: tar_of(entry("evil", tarfile.SYMTYPE, "/etc/passwd")), "evil is a link"),
    "tar, link within": (lambda: tar_of((entry("a"), b"x"), entry("b", tarfile.SYMTYPE, "a")), "b is a link"),
    "tar, hard link": (lambda: tar_of(entry("evil", tarfile.LNKTYPE, "/etc/passwd")), "evil is a link"),
    "zip, link": (lambda: zip_entry("evil", stat.S_IFLNK | 0o777, b"/etc/passwd"), "evil is a link"),
    "tar, device": (lambda: tar_of(entry("evil", tarfile.BLKTYPE)), "evil is a device"),
    "tar, pipe": (lambda: tar_of(entry("evil", tarfile.FIFOTYPE)), "evil is a device"),
    "zip, device": (lambda: zip_entry("evil", stat.S_IFCHR | 0o666), "evil is a device"),
    "zip, bomb": (lambda: zip_of({"evil.bin": bytes(3 * 2**20)}), "from evil.bin on"),
    "tar.gz, bomb": (lambda: tar_of((entry("evil.bin"), bytes(3 * 2**20)), mode="w:gz"), "from evil.bin on"),
    "zip, too many": (lambda: zip_of({f"f{at}": b"" for at in range(60)}), "more than 50 files, from f50 on"),
    "tar, too many folders": (
        lambda: tar_of(*(entry(f"d{at}", tarfile.DIRTYPE) for at in range(201))),
        "more than 200 entries",
    ),
    "zip, case": (lambda: zip_of({"Evil.py": b"1", "evil.py": b"2"}), "Evil.py and evil.py differ by case"),
    "tar, twice": (lambda: tar_of((entry("evil"), b"1"), (entry("evil"), b"2")), "evil is there twice"),
    "tar, file and folder": (lambda: tar_of((entry("evil"), b"1"), (entry("evil/x"), b"2")), "evil is a file and a"),
    "zip, huge name": (lambda: zip_of({"e" * 300: b""}), "eee… is too long"),
    "zip, hidden name": (lambda: zip_of({"gpj\u202e.evil": b""}), "cannot be seen"),
    "zip, NUL": (lambda: zip_of({"evil.py#.txt": b""}).replace(b"py#", b"py\0"), "cannot be seen"),
    "zip, backslash": (lambda: zip_of({"..\\evil": b""}), "has a backslash"),
    "zip, password": (zip_with_a_password, "secret.py is encrypted"),
    "zip, damaged": (lambda: zip_of({"evil.py": b"x" * 99}).replace(b"x\x03", b"y\x03", 1)[:-30], "neither"),
    "tar.gz, cut off": (lambda: gzip.compress(tar_of((entry("evil"), bytes(99_999))))[:-20], "damaged"),
    "no archive": (lambda: b"#!/bin/sh\necho evil\n", "neither a zip nor a tar"),
    "nothing": (lambda: b"", "neither a zip nor a tar"),
    "empty": (lambda: zip_of({}), "no file"),
}


@pytest.fixture
def small(world: World) -> World:
    """A world that takes 50 files and 2 MiB."""
    Cluster.objects.update_or_create(pk=1, defaults={"code_most_files": 50, "code_most_bytes": 2 * 2**20})
    return world


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_archive_is_refused_with_the_name_and_nothing_stays(small: World, name: str) -> None:
    """Each is 400 with the entry in the sentence; no file of it is left anywhere in the store."""
    made, told = HOSTILE[name]
    answer = post(small.client("member"), made())

    assert answer.status_code == 400, answer.content
    [error] = answer.json()["errors"]
    assert told in error["detail"], error
    assert not CodeFolder.objects.exists()
    assert [path for path in Path(settings.SHARED_DIR).rglob("*") if path.is_file() or "evil" in path.name] == []


@pytest.mark.parametrize(
    "body",
    [
        ARCHIVE,
        zip_of({f"folder/{path}": content for path, content in FILES.items()}),
        zip_of({**FILES, "__MACOSX/._train.py": b"x", "data/.DS_Store": b"y"}),
        *(
            tar_of(*((entry(f"./{p}"), c) for p, c in FILES.items()), mode=mode)
            for mode in ("w", "w:gz", "w:bz2", "w:xz")
        ),
        tar_of(entry("folder", tarfile.DIRTYPE), *((entry(f"folder/{p}"), c) for p, c in FILES.items())),
    ],
    ids=["zip", "zip of a folder", "zip of a Mac", "tar", "gz", "bz2", "xz", "tar of a folder"],
)
def test_archive_gives_the_same_folder_as_its_files(small: World, body: bytes) -> None:
    """However it is packed, the manifest is that of the files, and a job can use it."""
    answer = post(small.client("member"), body)

    assert answer.status_code == 201, answer.content
    assert answer.json()["manifest"] == f"sha256:{digest_of()}"
    assert answer.json()["complete"]


def test_programs_stay_programs(small: World) -> None:
    """The right to run a file is kept, other rights are not."""
    with_right = post(small.client("member"), tar_of((entry("run.sh", mode=0o6750), b"#!"))).json()
    without = post(small.client("member"), tar_of((entry("run.sh", mode=0o600), b"#!"))).json()

    assert with_right["manifest"] != without["manifest"]
    text = (Path(settings.SHARED_DIR) / "code/manifests" / f"{with_right['manifest'][7:]}.json").read_text()
    assert '"mode":"755"' in text


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize("name", ["zip, traversal", "tar.gz, bomb", "zip, NUL"])
def test_limited_process_says_the_same(small: World, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """As it is in the product: a process of its own unpacks."""
    monkeypatch.setattr(archives, "child_answer", child_answer)
    made, told = HOSTILE[name]
    refused, taken = post(small.client("member"), made()), post(small.client("member"), ARCHIVE)

    assert told in refused.json()["errors"][0]["detail"]
    assert taken.json()["manifest"] == f"sha256:{digest_of()}"


@pytest.mark.usefixtures("processes")
def test_process_that_dies_refuses_the_archive(small: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an archive does to its reader, the web server lives and says so."""
    monkeypatch.setattr(
        archives, "child_answer", lambda module, task, cpu_s, secret: child_answer("no.such", task, cpu_s=cpu_s)
    )
    answer = post(small.client("member"), ARCHIVE)

    assert answer.status_code == 400
    assert "took too long or failed" in answer.json()["errors"][0]["detail"]
    assert [path for path in Path(settings.SHARED_DIR).rglob("*") if path.is_file()] == []
