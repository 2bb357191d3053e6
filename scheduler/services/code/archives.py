"""Takes a folder that comes as one zip or tar: it is unpacked by a limited process, then kept like any other."""

import json
import logging
import shutil
import threading
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import IO

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

MODULE = "scheduler.services.code.archive_child"
CPU_S = 120
MEMORY_BYTES = 512 * 2**20
WAIT_S = 60.0
# Archives at once of this web server.
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
    folder = store_path() / INCOMING_DIR / f"archive.{live_ports().ids.ulid(at)}"
    target = folder / "files"
    try:
        with room_told():
            target.mkdir(parents=True, mode=0o700)
            refuse_without_room(_written(folder / "archive", content, most_bytes=limits.num_bytes))
        task = {
            "path": str(folder / "archive"),
            "target": str(target),
            "limits": asdict(limits),
            "cpu_s": CPU_S,
            "memory_bytes": MEMORY_BYTES,
        }
        _unpacked(json.dumps(task))
        manifest = CodeManifest.read(json.loads((target / MANIFEST).read_bytes()), limits)
        incoming = Incoming(digest=manifest.digest, user_id=user.pk)
        incoming.begin(manifest)
        for sha256 in manifest.sizes:
            (target / sha256).replace(incoming.path / sha256)
        return code_keep(user, manifest, incoming, at=at)
    except CodeRefused as refused:
        raise code_invalid(refused) from None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _unpacked(task: str) -> None:
    if not _slots.acquire(timeout=WAIT_S):
        raise Conflict("Other archives are being unpacked. Send this one again in a minute.")
    try:
        answer, status = child_answer(MODULE, task, cpu_s=CPU_S)
    finally:
        _slots.release()
    try:
        said = json.loads(answer)
    except ValueError:
        log.error("archive_reader_failed", extra={"status": status})
        raise CodeRefused("shape", "Unpacking the archive took too long or failed. Send the folder itself.") from None
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
