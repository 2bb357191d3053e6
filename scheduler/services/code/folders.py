"""Sent folders: which contents a user still has to send, taking them in, and which jobs may use a folder.

Having the hash of a content gives nothing. A content counts as present only for users who have sent it before, as part
of a folder or of the one that is on its way; for everybody else it is missing, also when the store has it, so that no
answer tells what other queues have. A job may start in a folder that its owner has sent, or that a job has which its
owner may see.
"""

from datetime import datetime
from functools import lru_cache
from typing import IO, Annotated, TypedDict

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import F

from agents.protocol.code import CodeLimits, CodeManifest, CodeRefused, shown_name, size_shown
from scheduler.core.model.errors import Conflict, FieldError, NotAllowed, NotFound, SpecInvalid
from scheduler.core.spec.code import PREFIX, Code
from scheduler.core.spec.command_hints import missing_script
from scheduler.core.spec.spec import JobSpec
from scheduler.models import CodeBlob, CodeFolder, CodeSent
from scheduler.models.queue import Role
from scheduler.selectors.visibility import RANK, Access, Actor, access_of
from scheduler.services.cluster.settings import cluster_row
from scheduler.services.code.store import (
    Incoming,
    blob_path,
    holds,
    incoming_of,
    manifest_read,
    manifest_write,
    refuse_without_room,
    room_told,
)
from scheduler.services.events import event_record

# Folders of a user that are looked through for contents which need not be sent again: versions of the same few.
NEWEST_FOLDERS = 20
# Folders that one user may be sending at once; the oldest gives way.
MOST_INCOMING = 4
ROWS_AT_ONCE = 400
HASH_BYTES = 32
# The spec of a folder, which says what to run in it; the command knows them by the same names.
SPEC_NAMES = ("job.yaml", "job.yml", "job.json")
SPEC_BYTES = 1024 * 1024


class CodeAnswer(TypedDict):
    """A folder, and what is missing of it."""

    manifest: Annotated[str, "Names the folder; `code.manifest` of a spec."]
    files: Annotated[int, "Files in it."]
    bytes: Annotated[int, "Bytes of its files."]
    complete: Annotated[bool, "Whether jobs may be submitted with it: nothing is missing."]
    missing: Annotated[list[str], "SHA-256 of each content that you still have to send."]
    missing_bytes: Annotated[int, "Bytes of these contents."]


def may_send_code(user: Actor) -> bool:
    """Return whether a user may send folders: members and leads of any queue, and admins."""
    access = access_of(user)
    return access.is_admin or any(RANK[role] >= RANK[Role.MEMBER] for role in access.roles.values())


def code_limits() -> CodeLimits:
    """Return how much one folder may hold, as an admin set it."""
    cluster = cluster_row()
    return CodeLimits(files=cluster.code_most_files, num_bytes=cluster.code_most_bytes)


def code_offer(*, actor: Actor, data: object, at: datetime) -> CodeAnswer:
    """Take the manifest of a folder and return what is missing; a folder of which nothing is missing is complete.

    Raises:
        NotAllowed: ``actor`` may submit to no queue.
        SpecInvalid: The manifest is none, or holds what a folder may not; the name of the file is told.
        NoRoom: The disk has no room for it.
    """
    user = code_sender(actor)
    try:
        manifest = CodeManifest.read(data, code_limits())
    except CodeRefused as refused:
        raise code_invalid(refused) from None
    incoming = Incoming(digest=manifest.digest, user_id=user.pk)
    missing = _missing(user, manifest, incoming)
    if missing:
        refuse_without_room(sum(missing.values()))
        _drop_oldest(user, besides=incoming)
        with room_told():
            incoming.begin(manifest)
        return _answer(manifest, missing)
    return code_keep(user, manifest, incoming, at=at)


def code_take(*, actor: Actor, digest: str, content: IO[bytes], at: datetime) -> CodeAnswer:
    """Take contents of a folder that was offered: each its SHA-256 as 32 bytes, then its bytes; return what is missing.

    Whatever arrived whole stays when the rest is refused, so that only the rest is sent again.

    Raises:
        NotAllowed: ``actor`` may submit to no queue.
        NotFound: ``actor`` has not offered the folder.
        SpecInvalid: A content is not of the folder, or is not what its hash says.
        NoRoom: The disk is full.
    """
    user = code_sender(actor)
    incoming = Incoming(digest=digest, user_id=user.pk)
    manifest = incoming.manifest()
    if manifest is None:
        found = manifest_read(digest) if CodeSent.objects.filter(folder=digest, user=user).exists() else None
        if found is None:
            raise NotFound("Send the manifest of the folder first.")
        return _answer(found, {})  # sent twice at once: the other request was faster
    names = {file.sha256: file.path for file in manifest.files}
    sizes = manifest.sizes
    with room_told():
        while head := content.read(HASH_BYTES):
            sha256 = head.hex()
            if len(head) < HASH_BYTES or sha256 not in sizes:
                raise _bad_body("A content was sent that is not of this folder, or the body is cut off.")
            if not incoming.write(sha256, sizes[sha256], content.read):
                name = shown_name(names[sha256])
                raise _bad_body(f"{name} is not as the manifest says: it changed while it was sent, or was cut off.")
    missing = _missing(user, manifest, incoming)
    return _answer(manifest, missing) if missing else code_keep(user, manifest, incoming, at=at)


def code_found(user: User, access: Access, digest: str) -> CodeFolder | None:
    """Return a folder that ``user`` has sent, or that a job has which ``user`` may see; None for any other."""
    folder = CodeFolder.objects.filter(pk=digest, sent__isnull=False).first()
    if folder is None:
        return None
    is_known = access.is_admin or folder.sent.filter(user=user).exists() or access.jobs().filter(code=digest).exists()
    return folder if is_known else None


def code_errors(owner: User, access: Access, code: Code, *, disk_bytes: int) -> list[FieldError]:
    """Return why a job of ``owner`` cannot start in a folder; nothing where it can."""
    folder = code_found(owner, access, code.manifest)
    if folder is None:
        detail = (
            "There is no such folder that you sent or that a job has which you may see. Send it again: "
            "clusterweb submit . in the folder, or drop it on the form."
        )
        return [FieldError(pointer="/code/manifest", code="unknown", detail=detail)]
    if folder.num_bytes > disk_bytes:
        detail = (
            f"The folder takes {size_shown(folder.num_bytes)}. Ask for more disk than that, for what it writes too."
        )
        return [FieldError(pointer="/resources/disk", code="capacity", detail=detail)]
    return []


def folder_spec(user: User, manifest: str) -> tuple[str, str] | None:
    """Return name and text of the spec on top of a folder that ``user`` may use; None where it has none.

    Args:
        manifest: As a spec names the folder.
    """
    digest = manifest.removeprefix(PREFIX)
    found = manifest_read(digest) if code_found(user, access_of(user), digest) is not None else None
    files = {file.path: file for file in found.files} if found is not None else {}
    name = next((name for name in SPEC_NAMES if name in files), "")
    if not name or files[name].size > SPEC_BYTES:
        return None
    try:
        return name, blob_path(files[name].sha256).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError):
        return None


def script_errors(spec: JobSpec) -> list[FieldError]:
    """Return the error of a job whose command starts a script that neither its folder nor its files have.

    Only for a spec whose folder its owner may use: the error names files of it.
    """
    if spec.code is None or not (paths := _paths(spec.code.manifest)):
        return []
    missing = missing_script(spec.command, {*paths, *spec.files})
    return [FieldError(pointer="/command", code="missing", detail=missing)] if missing else []


@lru_cache(maxsize=8)  # folders of which jobs are submitted now; a manifest never changes
def _paths(digest: str) -> frozenset[str]:
    """Return the paths of the files of a folder; none where its manifest is gone."""
    manifest = manifest_read(digest) if digest else None
    return frozenset() if manifest is None else frozenset(file.path for file in manifest.files)


def code_use(digests: set[str], *, at: datetime) -> None:
    """Note that jobs are stored with these folders, within the transaction that stores them.

    Raises:
        SpecInvalid: One was removed since it was checked.
    """
    if digests and CodeFolder.objects.filter(pk__in=digests).update(used_at=at) < len(digests):
        detail = "The folder was removed a moment ago, since no job had used it for long. Send it again."
        raise SpecInvalid([FieldError(pointer="/code/manifest", code="unknown", detail=detail)])


def code_invalid(refused: CodeRefused) -> SpecInvalid:
    """Return the error of a folder that cannot be taken."""
    return SpecInvalid([FieldError(pointer="/files", code=refused.code, detail=refused.detail)])


def code_sender(actor: Actor) -> User:
    """Return the user who may send folders. Raises NotAllowed."""
    if not (isinstance(actor, User) and may_send_code(actor)):
        raise NotAllowed("Only members of a queue may send folders. A lead can make you one.")
    return actor


def _missing(user: User, manifest: CodeManifest, incoming: Incoming) -> dict[str, int]:
    """Return hash and size of each content that the user has neither sent before nor just now."""
    missing = {sha256: size for sha256, size in manifest.sizes.items() if not incoming.has(sha256)}
    if not missing:
        return missing
    sent = CodeSent.objects.filter(user=user).order_by("-at", "pk").values_list("folder_id", flat=True)
    same = list(sent.filter(folder=manifest.digest))
    for digest in [*same, *sent[:NEWEST_FOLDERS]]:
        known = manifest_read(digest)
        for sha256, size in known.sizes.items() if known is not None else ():
            if missing.get(sha256) == size and holds(sha256, size):
                del missing[sha256]
        if not missing:
            break
    return missing


def code_keep(user: User, manifest: CodeManifest, incoming: Incoming, *, at: datetime) -> CodeAnswer:
    """Store a folder of which nothing is missing. Raises Conflict, NoRoom.

    The contents are counted first, so that the clean-up leaves them alone. They are moved outside the transaction,
    which would keep other writers waiting for thousands of files. A folder that no user has sent is one whose contents
    did not all get there: no job can use it, and it goes like any other.
    """
    sizes = manifest.sizes
    with room_told():
        _counted(manifest, at=at)
        for sha256, size in sizes.items():
            if not incoming.place(sha256, size):
                raise Conflict("A part of the folder was removed meanwhile. Send it again.")
    _, is_new = CodeSent.objects.update_or_create(folder_id=manifest.digest, user=user, defaults={"at": at})
    if is_new:
        data = {"manifest": manifest.digest, "files": len(manifest.files), "bytes": manifest.num_bytes}
        event_record(kind="code", actor=user, at=at, reason="sent", data=data)
    incoming.remove()
    return _answer(manifest, {})


@transaction.atomic
def _counted(manifest: CodeManifest, *, at: datetime) -> None:
    """Store the folder's row and count it at each of its contents, unless that was done before."""
    sizes = manifest.sizes
    folder, is_new = CodeFolder.objects.select_for_update().get_or_create(
        pk=manifest.digest,
        defaults={"num_files": len(manifest.files), "num_bytes": manifest.num_bytes, "created_at": at, "used_at": at},
    )
    CodeFolder.objects.filter(pk=folder.pk).update(used_at=at)
    manifest_write(manifest)  # the clean-up finds by it what to count down
    # In one order everywhere; the clean-up, which locks contents that no folder holds, waits until the commit.
    hashes = sorted(sizes) if is_new else []
    for start in range(0, len(hashes), ROWS_AT_ONCE):
        some = hashes[start : start + ROWS_AT_ONCE]
        CodeBlob.objects.bulk_create(
            [CodeBlob(sha256=sha256, num_bytes=sizes[sha256]) for sha256 in some], ignore_conflicts=True
        )
        CodeBlob.objects.filter(pk__in=some).update(folders=F("folders") + 1)


def _drop_oldest(user: User, *, besides: Incoming) -> None:
    others = [path for path in incoming_of(user.pk) if path != besides.path]
    for path in others[: max(0, len(others) + 1 - MOST_INCOMING)]:
        Incoming(digest=path.name.partition(".")[0], user_id=user.pk).remove()


def _answer(manifest: CodeManifest, missing: dict[str, int]) -> CodeAnswer:
    return {
        "manifest": PREFIX + manifest.digest,
        "files": len(manifest.files),
        "bytes": manifest.num_bytes,
        "complete": not missing,
        "missing": sorted(missing),
        "missing_bytes": sum(missing.values()),
    }


def _bad_body(detail: str) -> SpecInvalid:
    return SpecInvalid([FieldError(pointer="", code="content", detail=detail)])
