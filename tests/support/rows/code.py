"""Sent folders for tests: manifests and bodies as a client makes them, and archives without their process."""

import contextlib
import hashlib
import io
import json
import zipfile
from collections.abc import Mapping
from typing import Any

from django.contrib.auth.models import AnonymousUser, User

from agents.protocol.code import CodeLimits, CodeManifest
from scheduler.core.model.errors import SchedulerError
from scheduler.services.code.archive_child import unpack
from scheduler.services.code.folders import CodeAnswer, code_offer, code_take
from tests.support.rows.factories import AT

FILES = {"train.py": b"print('hello')\n", "data/train.bin": bytes(range(256)) * 8}


def manifest_of(files: Mapping[str, bytes], *, mode: str = "644") -> dict[str, Any]:
    """Return the manifest of a folder as JSON."""
    rows = [
        {"path": path, "mode": mode, "size": len(content), "sha256": hashlib.sha256(content).hexdigest()}
        for path, content in files.items()
    ]
    return {"version": 1, "files": rows}


def blobs_of(contents: list[bytes]) -> bytes:
    """Return contents as one body."""
    return b"".join(hashlib.sha256(content).digest() + content for content in contents)


def zip_of(files: Mapping[str, bytes]) -> bytes:
    """Return a zip."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, content in files.items():
            archive.writestr(path, content)
    return target.getvalue()


MANIFEST = manifest_of(FILES)
BLOBS = blobs_of(list(FILES.values()))
ARCHIVE = zip_of(FILES)


def folder_send(user: User, files: Mapping[str, bytes] = FILES) -> CodeAnswer:
    """Send a whole folder, and return the last answer."""
    answer = code_offer(actor=user, data=manifest_of(files), at=AT)
    if answer["complete"]:
        return answer
    wanted = {hashlib.sha256(content).hexdigest(): content for content in files.values()}
    body = io.BytesIO(blobs_of([wanted[sha256] for sha256 in answer["missing"]]))
    return code_take(actor=user, digest=digest_of(files), content=body, at=AT)


def digest_of(files: Mapping[str, bytes] = FILES) -> str:
    """Return the digest of a folder's manifest."""
    return CodeManifest.read(manifest_of(files), CodeLimits()).digest


def offered(actor: User | AnonymousUser) -> str:
    """Offer the folder as this user, if the user may, and return the digest."""
    with contextlib.suppress(SchedulerError):
        code_offer(actor=actor, data=MANIFEST, at=AT)
    return digest_of()


def unpacked_here(module: str, task: str, *, cpu_s: int, secret: bytes = b"") -> tuple[bytes, int]:
    """Unpack an archive without its process, which test_archive_process.py has."""
    return json.dumps(unpack(json.loads(task))).encode(), 0
