"""Takes a folder that comes as one zip or tar: it is unpacked by a limited process, then kept like any other."""

import json
import logging
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any

from django.contrib.auth.models import User

from agents.protocol.code import CodeManifest, CodeRefused, size_shown
from scheduler.core.model.errors import Conflict, NoRoom
from scheduler.ports import live_ports
from scheduler.selectors.visibility import Actor
from scheduler.services.code.archive_child import MANIFEST, NO_ROOM
from scheduler.services.code.folders import CodeAnswer, code_invalid, code_keep, code_limits, code_sender
from scheduler.services.code.store import (
    CHUNK_BYTES,
    INCOMING_DIR,
    Incoming,
    refuse_without_room,
    room_told,
    store_path,
)
from scheduler.services.limited_child import child_answer

log = logging.getLogger(__name__)

WAIT_S = 60.0
ARCHIVE, FILES = "archive", "files"  # below the folder of one process


@dataclass(frozen=True, slots=True, kw_only=True)
class Child:
    """A process that unpacks, its limits, and what users are told when it ends without an answer."""

    module: str
    cpu_s: int
    memory_bytes: int
    failed: str


ARCHIVES = Child(
    module="scheduler.services.code.archive_child",
    cpu_s=120,
    memory_bytes=512 * 2**20,
    failed="Unpacking the archive took too long or failed. Send the folder itself.",
)
# Processes at once of this web server.
_slots = threading.BoundedSemaphore(2)


def code_from_archive(*, actor: Actor, content: IO[bytes], at: datetime) -> CodeAnswer:
    """Keep the folder in an uploaded zip or tar, and return it; nothing of a refused one stays.

    Raises:
        NotAllowed: ``actor`` may submit to no queue.
        SpecInvalid: It is no archive, or holds what a folder may not; the name of the entry is told.
        Conflict: Other archives were being unpacked all the time.
        NoRoom: The disk is full.
    """
    user = code_sender(actor)
    limits = code_limits()
    try:
        with incoming_folder(at) as folder:
            with room_told():
                refuse_without_room(_written(folder / ARCHIVE, content, most_bytes=limits.num_bytes))
            return code_from_child(user, ARCHIVES, {"path": str(folder / ARCHIVE)}, folder=folder, at=at)
    except CodeRefused as refused:
        raise code_invalid(refused) from None


@contextmanager
def incoming_folder(at: datetime) -> Iterator[Path]:
    """Give a folder for what one process unpacks; nothing of it stays."""
    folder = store_path() / INCOMING_DIR / f"archive.{live_ports().ids.ulid(at)}"
    try:
        with room_told():
            (folder / FILES).mkdir(parents=True, mode=0o700)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def code_from_child(
    user: User, child: Child, task: Mapping[str, Any], *, folder: Path, at: datetime, secret: bytes = b""
) -> CodeAnswer:
    """Have a process unpack a folder below ``folder``, and keep it.

    Raises:
        CodeRefused: It holds what a folder may not, or the process failed.
        Conflict: Other processes were at work all the time.
        NoRoom: The disk is full.
    """
    limits, target = code_limits(), folder / FILES
    given = {"target": str(target), "limits": asdict(limits), "cpu_s": child.cpu_s, "memory_bytes": child.memory_bytes}
    _unpacked(child, json.dumps({**task, **given}), secret)
    manifest = CodeManifest.read(json.loads((target / MANIFEST).read_bytes()), limits)
    incoming = Incoming(digest=manifest.digest, user_id=user.pk)
    incoming.begin(manifest)
    for sha256 in manifest.sizes:
        (target / sha256).replace(incoming.path / sha256)
    return code_keep(user, manifest, incoming, at=at)


def _unpacked(child: Child, task: str, secret: bytes) -> None:
    if not _slots.acquire(timeout=WAIT_S):
        raise Conflict("Other folders are being unpacked. Send this one again in a minute.")
    try:
        answer, status = child_answer(child.module, task, cpu_s=child.cpu_s, secret=secret)
    finally:
        _slots.release()
    try:
        said = json.loads(answer)
    except ValueError:
        log.error("archive_reader_failed", extra={"status": status, "reader": child.module})
        raise CodeRefused("shape", child.failed) from None
    if said.get("code") == NO_ROOM:
        raise NoRoom("The disk for sent folders is full. Tell an admin.")
    if said:
        raise CodeRefused(str(said["code"]), str(said["detail"]))


def _written(path: Path, content: IO[bytes], *, most_bytes: int) -> int:
    """Write the upload to disk and return its size."""
    size = 0
    with path.open("xb") as file:
        while chunk := content.read(CHUNK_BYTES):
            size += len(chunk)
            if size > most_bytes:
                raise CodeRefused("size", f"An archive may have at most {size_shown(most_bytes)}.")
            file.write(chunk)
    return size
