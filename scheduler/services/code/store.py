"""The content store, ``<shared directory>/code``: files only; what the database knows of them is in ``folders.py``.

    blobs/ab/<sha256>                 one content, written once, never changed
    manifests/<sha256>.json           one folder
    incoming/<manifest>.<user id>/    what has arrived of a folder that is not whole yet: its manifest and contents

The control plane alone writes here; agents read, jobs do neither. A content is hashed while it streams to disk and gets
its name only when that is right.
"""

import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path

from django.conf import settings

from agents.protocol.code import BLOBS_DIR, CODE_DIR, MANIFESTS_DIR, CodeManifest, CodeRefused
from scheduler.core.model.errors import NoRoom

INCOMING_DIR = "incoming"
MANIFEST = "manifest.json"
CHUNK_BYTES = 1024 * 1024
# What must stay free, for logs and checkpoints of running jobs.
SPARE_BYTES = 2**30


def store_path() -> Path:
    """Return the folder of the store."""
    return Path(settings.SHARED_DIR) / CODE_DIR


def blob_path(sha256: str) -> Path:
    """Return where a content is."""
    return store_path() / BLOBS_DIR / sha256[:2] / sha256


def manifest_path(digest: str) -> Path:
    """Return where the manifest of a folder is."""
    return store_path() / MANIFESTS_DIR / f"{digest}.json"


def holds(sha256: str, size: int) -> bool:
    """Return whether a content is there; one of another size was cut off by a power failure."""
    try:
        return blob_path(sha256).stat().st_size == size
    except OSError:
        return False


def manifest_read(digest: str) -> CodeManifest | None:
    """Return the manifest of a folder in the store; None where it is gone or damaged."""
    try:
        return CodeManifest.decode(manifest_path(digest).read_bytes(), digest=digest)
    except (OSError, CodeRefused):
        return None


@contextmanager
def room_told() -> Iterator[None]:
    """Turn a full disk into an error for the user."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise NoRoom("The disk for sent folders is full. Tell an admin; nothing of this folder is lost.") from None
        raise


def refuse_without_room(num_bytes: int) -> None:
    """Raise NoRoom unless so many bytes fit and some are left for running jobs."""
    store_path().mkdir(parents=True, exist_ok=True, mode=0o700)
    if shutil.disk_usage(store_path()).free < num_bytes + SPARE_BYTES:
        raise NoRoom("The disk for sent folders is nearly full. Tell an admin, or send less.")


class Incoming:
    """What has arrived of one folder of one user.

    Attributes:
        path: Its folder.
    """

    def __init__(self, *, digest: str, user_id: int) -> None:
        self.path = store_path() / INCOMING_DIR / f"{digest}.{user_id}"
        self._digest = digest

    def begin(self, manifest: CodeManifest) -> None:
        """Keep the manifest; what has arrived before stays."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        _write_whole(self.path / MANIFEST, manifest.encode())
        os.utime(self.path)  # its age counts from here

    def manifest(self) -> CodeManifest | None:
        """Return the manifest; None when nothing was begun."""
        try:
            return CodeManifest.decode((self.path / MANIFEST).read_bytes(), digest=self._digest)
        except (OSError, CodeRefused):
            return None

    def has(self, sha256: str) -> bool:
        """Return whether a content has arrived."""
        return (self.path / sha256).is_file()

    def write(self, sha256: str, size: int, read: Callable[[int], bytes]) -> bool:
        """Keep a content that is read in pieces; return False if it is another one or ends too early."""
        content_hash, left = hashlib.sha256(), size
        partial = self.path / f".{sha256}.{os.getpid()}.{id(content_hash)}"
        try:
            with partial.open("xb") as file:
                while left and (chunk := read(min(CHUNK_BYTES, left))):
                    content_hash.update(chunk)
                    file.write(chunk)
                    left -= len(chunk)
            if left or content_hash.hexdigest() != sha256:
                return False
            partial.replace(self.path / sha256)
            return True
        finally:
            partial.unlink(missing_ok=True)

    def place(self, sha256: str, size: int) -> bool:
        """Move a content to its place in the store unless it is there; return False if it is nowhere."""
        if holds(sha256, size):
            return True
        target = blob_path(sha256)
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        try:
            (self.path / sha256).replace(target)
        except FileNotFoundError:
            return False
        return True

    def remove(self) -> None:
        """Forget what has arrived."""
        shutil.rmtree(self.path, ignore_errors=True)


def incoming_of(user_id: int) -> list[Path]:
    """Return the folders that a user has begun to send, the oldest first."""
    return sorted((store_path() / INCOMING_DIR).glob(f"*.{user_id}"), key=_modified)


def incoming_before(at: datetime) -> list[Path]:
    """Return the folders of which nothing was begun since."""
    return [path for path in (store_path() / INCOMING_DIR).glob("*.*") if _modified(path) < at.timestamp()]


def manifest_write(manifest: CodeManifest) -> None:
    """Write the manifest of a folder whose contents are all in the store."""
    path = manifest_path(manifest.digest)
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    _write_whole(path, manifest.encode())


def _write_whole(path: Path, content: bytes) -> None:
    partial = path.with_name(f".{path.name}.{os.getpid()}.{id(content)}")
    try:
        with partial.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


def _modified(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
