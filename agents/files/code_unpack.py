"""Lays the folder that was sent for a job into its directory, before its first process starts.

The contents come from the store in the shared directory, which the control plane writes; each is hashed while it is
copied. ``job_dir.py`` sees to it that this is done once, and that nothing half done is ever started in. Standard
library only, as the supervisor that calls this in a process of its own.
"""

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable

from agents.files.atomic import file_system_sync, open_directory, read_at
from agents.protocol.code import (
    BLOBS_DIR,
    CODE_DIR,
    MANIFESTS_DIR,
    MODES,
    CodeFile,
    CodeManifest,
    CodeRefused,
    size_shown,
)

CHUNK_BYTES = 1024 * 1024
MANIFEST_BYTES = 64 * 2**20
SAID_EVERY_BYTES = 256 * 2**20


class UnpackFailed(Exception):
    """The folder cannot be laid out; the text is for the owner of the job."""


def code_unpack(shared_fd: int, root_fd: int, *, digest: str, says: Callable[[str], None]) -> None:
    """Lay the files of a sent folder into an empty directory.

    Args:
        shared_fd: The shared directory, which holds the store.
        root_fd: The directory; no job knows it yet.
        digest: SHA-256 of the manifest.
        says: Is told how far it is, for the log of the job.

    Raises:
        UnpackFailed: The folder or a content of it is gone or damaged, or there is no room for it.
        OSError.
    """
    folders = {"": root_fd}
    blobs_fd = -1
    try:
        code_fd = _opened(CODE_DIR, shared_fd)
        try:
            manifest = _manifest(code_fd, digest)
            blobs_fd = _opened(BLOBS_DIR, code_fd)
        finally:
            os.close(code_fd)
        done = said = 0
        total = size_shown(manifest.num_bytes)
        says(f"unpacking {len(manifest.files):,} file{'s' * (len(manifest.files) != 1)}, {total}")
        # In the order of paths, so that the files of a folder come together and few folders are open.
        for file in manifest.files:
            _copy(blobs_fd, _folder(folders, file.path.rpartition("/")[0]), file)
            done += file.size
            if done - said >= SAID_EVERY_BYTES:
                said = done
                says(f"{size_shown(done)} of {total} unpacked")
        # The caller writes next, for good, that the folder is whole: a power failure must leave no empty files in it.
        file_system_sync(root_fd)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise UnpackFailed("The disk is full: the folder of the job does not fit.") from None
        raise
    finally:
        for descriptor in {*folders.values(), *([blobs_fd] if blobs_fd >= 0 else [])} - {root_fd}:
            os.close(descriptor)


def _manifest(code_fd: int, digest: str) -> CodeManifest:
    manifests_fd = _opened(MANIFESTS_DIR, code_fd)
    try:
        content = read_at(manifests_fd, f"{digest}.json", most_bytes=MANIFEST_BYTES)
    finally:
        os.close(manifests_fd)
    if content is None:
        raise UnpackFailed("The folder of the job is no longer on the server. Send it again and submit a new job.")
    try:
        return CodeManifest.decode(content, digest=digest)
    except CodeRefused as refused:
        raise UnpackFailed(f"The folder of the job cannot be unpacked: {refused.detail}") from None


def _folder(folders: dict[str, int], path: str) -> int:
    """Return the descriptor of a folder, made where it is missing; those that are no longer needed are closed."""
    for other in [other for other in folders if other and other != path and not path.startswith(f"{other}/")]:
        os.close(folders.pop(other))
    known, names = "", path.split("/") if path else []
    for name in names:
        folder = f"{known}/{name}" if known else name
        if folder not in folders:
            with contextlib.suppress(FileExistsError):  # it was closed meanwhile
                os.mkdir(name, 0o700, dir_fd=folders[known])
            folders[folder] = open_directory(name, dir_fd=folders[known])
        known = folder
    return folders[known]


def _copy(blobs_fd: int, folder_fd: int, file: CodeFile) -> None:
    """Copy one content and check it on the way."""
    damaged = f"{file.path} is gone or damaged on the server. Send the folder again and submit a new job."
    try:
        part_fd = open_directory(file.sha256[:2], dir_fd=blobs_fd)
        try:
            source = os.open(file.sha256, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=part_fd)
        finally:
            os.close(part_fd)
    except FileNotFoundError:
        raise UnpackFailed(damaged) from None
    name = file.path.rpartition("/")[2]
    content_hash, size = hashlib.sha256(), 0
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(source, "rb", buffering=0) as reader, open(os.open(name, flags, 0o600, dir_fd=folder_fd), "wb") as writer:
        while chunk := reader.read(CHUNK_BYTES):
            content_hash.update(chunk)
            size += len(chunk)
            writer.write(chunk)
        writer.flush()
        os.fchmod(writer.fileno(), MODES[file.mode])
    if size != file.size or content_hash.hexdigest() != file.sha256:
        raise UnpackFailed(damaged)


def _opened(name: str, dir_fd: int) -> int:
    try:
        return open_directory(name, dir_fd=dir_fd)
    except FileNotFoundError:
        raise UnpackFailed("The folder of the job is not in the shared directory of this server.") from None
