"""Sending a folder: only what the sender has not sent before, each content checked, nothing half kept."""

import errno
import hashlib
import json
import os
import shutil
from collections import namedtuple
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.test import Client

from scheduler.models import Cluster, CodeBlob, CodeFolder
from scheduler.services.code import store
from scheduler.services.code.store import Incoming
from tests.integration.api.conftest import World, spec
from tests.support.rows.code import BLOBS, FILES, MANIFEST, blobs_of, digest_of, manifest_of

OCTETS = "application/octet-stream"


def offer(client: Client, manifest: dict[str, Any] = MANIFEST) -> Any:
    """Offer a folder; return the answer."""
    return client.post("/api/v1/code", json.dumps(manifest), content_type="application/json")


def send(client: Client, body: bytes, *, files: dict[str, bytes] = FILES) -> Any:
    """Send contents of a folder; return the answer."""
    return client.post(f"/api/v1/code/sha256:{digest_of(files)}/blobs", body, content_type=OCTETS)


def kept() -> list[str]:
    """Return every file of the store, by its path in there."""
    root = Path(settings.SHARED_DIR) / "code"
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())


def test_folder_is_offered_sent_and_used(world: World) -> None:
    """The way of a client: manifest, missing contents, a job that names the folder; all of it in the store."""
    client = world.client("member")
    first = offer(client).json()
    sent = send(client, BLOBS).json()
    job = client.post(
        "/api/v1/jobs", json.dumps(spec(code={"manifest": sent["manifest"]})), content_type="application/json"
    )

    hashes = sorted(hashlib.sha256(content).hexdigest() for content in FILES.values())
    assert (first["complete"], first["missing"], first["missing_bytes"]) == (
        False,
        hashes,
        sum(map(len, FILES.values())),
    )
    assert (sent["complete"], sent["missing"], sent["files"]) == (True, [], 2)
    assert job.status_code == 201, job.content
    assert job.json()["spec"]["code"] == {"manifest": f"sha256:{digest_of()}"}
    assert kept() == sorted([*(f"blobs/{one[:2]}/{one}" for one in hashes), f"manifests/{digest_of()}.json"])


def test_second_time_nothing_is_missing(world: World) -> None:
    """The same folder again is complete at once; of a changed one only the change is asked for."""
    client = world.client("member")
    offer(client)
    send(client, BLOBS)
    changed = {**FILES, "train.py": b"print('other')\n", "copy.bin": FILES["data/train.bin"]}

    assert offer(client).json()["complete"]
    assert offer(client, manifest_of(changed)).json()["missing"] == [hashlib.sha256(changed["train.py"]).hexdigest()]


def test_what_arrived_before_a_lost_connection_is_not_asked_for_again(world: World) -> None:
    """A body that is cut off is refused; its whole contents stay, the other is missing."""
    client = world.client("member")
    offer(client)
    cut = send(client, BLOBS[:-1])
    again = offer(client).json()
    rest = send(client, blobs_of([FILES["data/train.bin"]])).json()

    assert cut.status_code == 400
    assert "data/train.bin" in cut.json()["errors"][0]["detail"]
    assert again["missing"] == [hashlib.sha256(FILES["data/train.bin"]).hexdigest()]
    assert rest["complete"]


def test_content_that_is_not_what_its_hash_says_is_refused(world: World) -> None:
    """A hash is believed of nobody; a content that is not of the folder neither."""
    client = world.client("member")
    offer(client)
    wrong = FILES["train.py"].replace(b"hello", b"hullo")
    forged = send(client, hashlib.sha256(FILES["train.py"]).digest() + wrong)
    foreign = send(client, blobs_of([b"something else"]))

    assert forged.status_code == foreign.status_code == 400
    assert "train.py is not as the manifest says" in forged.json()["errors"][0]["detail"]
    assert not CodeFolder.objects.exists()
    assert [name for name in kept() if "blobs" in name] == []


def test_contents_without_an_offer_are_not_found(world: World) -> None:
    """A folder is offered first, and by the same user."""
    offer(world.client("member"))

    assert send(world.client("lead"), BLOBS).status_code == 404
    assert world.client("member").post("/api/v1/code/odd/blobs", b"", content_type=OCTETS).status_code == 404


def test_bad_manifest_is_refused_with_the_name(world: World) -> None:
    """The entry of the error names the file."""
    answer = offer(world.client("member"), manifest_of({"../up.py": b"x"}))

    assert answer.status_code == 400
    [error] = answer.json()["errors"]
    assert (error["pointer"], error["code"]) == ("/files", "path")
    assert "../up.py" in error["detail"]


def test_limits_are_those_of_the_admin(world: World) -> None:
    """Bytes and files of a folder are settings."""
    client, admin = world.client("member"), world.client("admin")
    body = json.dumps({"code_most_bytes": 1_024, "code_most_files": 2, "reason": "disk is small"})
    set_to = admin.patch("/api/v1/settings", body, content_type="application/json", headers={"If-Match": "*"})
    too_large, too_many = offer(client), offer(client, manifest_of(dict.fromkeys("abc", b"")))

    assert set_to.status_code == 200, set_to.content
    assert "more than 1 KiB" in too_large.json()["errors"][0]["detail"]
    assert "at most 2 can be sent" in too_many.json()["errors"][0]["detail"]


def test_full_disk_is_told_and_loses_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """507 before the upload where it is seen, 507 while it runs else; when there is room again it goes on."""
    client = world.client("member")
    usage = namedtuple("usage", "total used free")
    with monkeypatch.context() as nearly_full:
        nearly_full.setattr(shutil, "disk_usage", lambda path: usage(2**40, 2**40, 2**20))
        before = offer(client)
    offer(client)
    with monkeypatch.context() as full:

        def fail(*_: object) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        full.setattr(Path, "replace", fail)
        while_it_runs = send(client, BLOBS)
    later = send(client, BLOBS)

    assert (before.status_code, while_it_runs.status_code, later.status_code) == (507, 507, 200)
    assert "full" in while_it_runs.json()["detail"]
    assert later.json()["complete"]


def test_lost_content_is_asked_for_again(world: World) -> None:
    """A content that a power failure cut off is missing, and sending it mends every folder that has it."""
    client = world.client("member")
    offer(client)
    send(client, BLOBS)
    sha256 = hashlib.sha256(FILES["train.py"]).hexdigest()
    os.truncate(store.blob_path(sha256), 0)

    assert offer(client).json()["missing"] == [sha256]
    assert send(client, blobs_of([FILES["train.py"]])).json()["complete"]
    assert store.blob_path(sha256).read_bytes() == FILES["train.py"]
    assert [blob.folders for blob in CodeBlob.objects.all()] == [1, 1]


def test_folder_whose_contents_did_not_all_get_there_is_nobodys(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between two contents: no job can use it, not an admin's, and sending it again makes it whole."""
    client, admin = world.client("member"), world.client("admin")
    offer(client)
    with monkeypatch.context() as killed:

        def stop(*_: object) -> None:
            raise KeyboardInterrupt

        killed.setattr(Incoming, "place", stop)
        with pytest.raises(KeyboardInterrupt):
            send(client, BLOBS)
    body = json.dumps(spec(code={"manifest": f"sha256:{digest_of()}"}))
    refused = admin.post("/api/v1/jobs", body, content_type="application/json")
    again = offer(client).json()

    assert [error["pointer"] for error in refused.json()["errors"]] == ["/code/manifest"]
    assert again["complete"]  # all had arrived
    assert client.post("/api/v1/jobs", body, content_type="application/json").status_code == 201
    assert [blob.folders for blob in CodeBlob.objects.all()] == [1, 1]


def test_job_needs_disk_for_its_folder(world: World) -> None:
    """A folder that does not fit in the disk of its job is refused before anything starts."""
    Cluster.objects.update(code_most_bytes=2**30)
    client, files = world.client("member"), {"big.bin": bytes(2**20 + 1)}
    offer(client, manifest_of(files))
    manifest = send(client, blobs_of(list(files.values())), files=files).json()["manifest"]
    body = spec(code={"manifest": manifest}, resources={"disk": "1MiB"})
    answer = client.post("/api/v1/jobs", json.dumps(body), content_type="application/json")

    assert [error["pointer"] for error in answer.json()["errors"]] == ["/resources/disk"]


def test_five_thousand_files_take_two_requests(world: World) -> None:
    """Many small files go together, and the second time none."""
    files = {f"src/{at % 50}/module_{at}.py": f"VALUE = {at}\n".encode() for at in range(5_000)}
    client = world.client("member")
    first = offer(client, manifest_of(files)).json()
    sent = send(client, blobs_of(list(files.values())), files=files).json()

    assert len(first["missing"]) == 5_000
    assert sent["complete"]
    assert offer(client, manifest_of(files)).json()["missing"] == []
    assert CodeBlob.objects.filter(folders=1).count() == 5_000


def test_empty_body_is_answered_with_what_is_missing(world: World) -> None:
    """Nothing sent is nothing wrong."""
    client = world.client("member")
    offer(client)

    assert len(send(client, b"").json()["missing"]) == 2
