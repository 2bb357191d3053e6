"""Trace files for what-if: kept as they were sent, read only in the limited process of a run."""

from datetime import datetime

from django.contrib.auth.models import User
from django.db import transaction
from django.db.models import ProtectedError, Sum

from scheduler.core.errors import Conflict, NotAllowed
from scheduler.core.spec_reading import is_storable
from scheduler.models import TraceFile
from scheduler.ports import live_ports
from scheduler.selectors.visibility import Actor, may_ask_what_if
from scheduler.services.events import event_record
from scheduler.services.inputs import Problems
from scheduler.simulator.traces import READERS

MOST_BYTES = 7 * 1024 * 1024
MOST_BYTES_OF_USER = 100 * 1024 * 1024
NAME_CHARS = 120
GZIP = b"\x1f\x8b"


def trace_file_create(*, actor: Actor, name: str, content: bytes, at: datetime) -> TraceFile:
    """Keep an uploaded trace.

    Raises:
        NotAllowed: ``actor`` is neither an admin nor a lead.
        SpecInvalid: It is empty, too large, or begins like no format.
        Conflict: The traces of ``actor`` take too much room.
    """
    if not (isinstance(actor, User) and may_ask_what_if(actor)):
        raise NotAllowed("Only admins and leads of a queue may upload traces.")
    problems = Problems()
    name = problems.text("name", name.rpartition("/")[2], least=1, most=NAME_CHARS)
    if not is_storable(name):
        problems.add("name", "characters", "name holds a character that cannot be stored.")
    if not content:
        problems.add("file", "empty", "The file is empty.")
    elif len(content) > MOST_BYTES:
        problems.add("file", "length", f"A trace may have at most {MOST_BYTES // 2**20} MiB; gzip makes it smaller.")
    elif not _looks_right(content):
        formats = ", ".join(READERS)
        problems.add("file", "format", f"It begins like none of the formats that are read: {formats}.")
    problems.refuse()
    with transaction.atomic():
        kept = TraceFile.objects.filter(owner=actor).aggregate(total=Sum("num_bytes"))["total"] or 0
        if kept + len(content) > MOST_BYTES_OF_USER:
            raise Conflict(f"Your traces would take more than {MOST_BYTES_OF_USER // 2**20} MiB. Delete one first.")
        file = TraceFile.objects.create(
            id=live_ports().ids.ulid(at),
            owner=actor,
            name=name,
            content=content,
            num_bytes=len(content),
            created_at=at,
        )
        _record(file, actor=actor, at=at, reason="upload")
    return file


def trace_file_delete(*, actor: Actor, file: TraceFile, at: datetime) -> None:
    """Forget a trace; the caller has made sure that ``actor`` may use it.

    Raises:
        Conflict: A scenario starts from it.
    """
    assert isinstance(actor, User)
    with transaction.atomic():
        _record(file, actor=actor, at=at, reason="delete")
        try:
            file.delete()
        except ProtectedError:
            raise Conflict(f"A scenario starts from {file.name}. Delete the scenario first.") from None


def _looks_right(content: bytes) -> bool:
    """Return whether a reader may know it. What is packed is only unpacked where it can do no harm."""
    return content.startswith(GZIP) or any(reader.fits(content[:65_536]) for reader in READERS.values())


def _record(file: TraceFile, *, actor: User, at: datetime, reason: str) -> None:
    data = {"file": file.pk, "name": file.name, "bytes": file.num_bytes}
    event_record(kind="trace_file", actor=actor, at=at, reason=reason, data=data)
