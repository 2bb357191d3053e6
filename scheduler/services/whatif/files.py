"""Stores and deletes uploaded trace files; they are read in limited processes alone.

The database keeps owner and size; the bytes are in ``TRACES_DIR``, which web servers and simulations workers share.
"""

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO

from django.conf import settings
from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import ProtectedError, Sum

from scheduler.core.model.errors import Conflict, NotAllowed
from scheduler.core.spec.reading import is_storable
from scheduler.models import TraceFile
from scheduler.ports import live_ports
from scheduler.selectors.visibility import Actor, may_ask_what_if
from scheduler.selectors.whatif import trace_file_path
from scheduler.services.events import event_record
from scheduler.services.inputs import Problems
from scheduler.services.whatif.trace_checks import refused
from scheduler.services.whatif.trace_process import trace_accepted

# Files of one user together, in files of the largest size.
MOST_FILES_OF_USER = 4
NAME_CHARS = 120
CHUNK_BYTES = 1024 * 1024


def most_bytes() -> int:
    """Return how large an uploaded trace may be, as it is sent."""
    return int(settings.TRACE_MOST_MIB) * 1024 * 1024


def trace_file_create(*, actor: Actor, name: str, content: IO[bytes], at: datetime) -> TraceFile:
    """Store an uploaded trace, read from ``content`` in chunks.

    Raises:
        NotAllowed: ``actor`` is neither an admin nor a lead.
        SpecInvalid: It is empty, too large, unpacks to too much, of no known format, or its first rows cannot be read.
        Conflict: The traces of ``actor`` take too much space, or too many are being read.
    """
    if not (isinstance(actor, User) and may_ask_what_if(actor)):
        raise NotAllowed("Only admins and leads of a queue may upload traces.")
    problems = Problems()
    name = problems.text("name", name.rpartition("/")[2], least=1, most=NAME_CHARS)
    if not is_storable(name):
        problems.add("name", "characters", "name holds a character that cannot be stored.")
    problems.refuse()
    file = TraceFile(id=live_ports().ids.ulid(at), owner=actor, name=name, created_at=at)
    path = trace_file_path(file)
    partial = path.with_suffix(".partial")
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        file.num_bytes = _written(partial, content)
        trace_accepted(partial, name=name)
        with transaction.atomic():
            _refuse_too_much(actor, file.num_bytes)
            file.save(force_insert=True)
            _record(file, actor=actor, at=at, reason="upload")
            partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return file


def _written(path: Path, content: IO[bytes]) -> int:
    """Write the upload to disk and return its size; stop reading when it is too large."""
    size = 0
    with path.open("xb") as file:
        for chunk in _chunks(content):
            size += len(chunk)
            if size > most_bytes():
                raise refused(
                    "length", f"A trace may have at most {settings.TRACE_MOST_MIB} MiB; gzip makes it smaller."
                )
            file.write(chunk)
    if not size:
        raise refused("empty", "The file is empty.")
    return size


def _chunks(content: IO[bytes]) -> Iterator[bytes]:
    while chunk := content.read(CHUNK_BYTES):
        yield chunk


def _refuse_too_much(actor: User, num_bytes: int) -> None:
    kept = TraceFile.objects.filter(owner=actor).aggregate(total=Sum("num_bytes"))["total"] or 0
    if kept + num_bytes > MOST_FILES_OF_USER * most_bytes():
        most = MOST_FILES_OF_USER * int(settings.TRACE_MOST_MIB)
        raise Conflict(f"Your traces would take more than {most:,} MiB. Delete one first.")


def trace_file_delete(*, actor: Actor, file: TraceFile, at: datetime) -> None:
    """Delete a trace; the caller has checked that ``actor`` may use it.

    Raises:
        Conflict: A scenario starts from it.
    """
    assert isinstance(actor, User)
    path = trace_file_path(file)
    with transaction.atomic():
        _record(file, actor=actor, at=at, reason="delete")
        try:
            file.delete()
        except ProtectedError:
            raise Conflict(f"A scenario starts from {file.name}. Delete the scenario first.") from None
        transaction.on_commit(lambda: path.unlink(missing_ok=True))


def _record(file: TraceFile, *, actor: User, at: datetime, reason: str) -> None:
    data = {"file": file.pk, "name": file.name, "bytes": file.num_bytes}
    event_record(kind="trace_file", actor=actor, at=at, reason=reason, data=data)
