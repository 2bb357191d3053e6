"""Has an uploaded trace checked by a limited process, so that no file costs the web server memory or its life.

See ``trace_child`` for the other side. Whatever becomes of that process, the upload is kept, or refused with a reason.
"""

import json
import logging
import signal
import threading
from dataclasses import asdict
from pathlib import Path

from django.conf import settings

from clusterweb.config.trace_limits import TraceLimits
from scheduler.core.model.errors import Conflict, SpecInvalid
from scheduler.services.limited_child import WALL_FACTOR, child_answer
from scheduler.services.whatif.trace_checks import refused

log = logging.getLogger(__name__)

MODULE = "scheduler.services.whatif.trace_child"
DETAIL_CHARS = 2000
# Processes at once of this web server; each may take the memory of the limits.
_slots = threading.BoundedSemaphore(2)


def trace_accepted(path: Path, *, name: str) -> None:
    """Return if the trace may be stored.

    Args:
        path: Where it is.
        name: What its owner calls it.

    Raises:
        SpecInvalid: With what is wrong with it, or what reading it took.
        Conflict: Other traces were being read all the time.
    """
    limits: TraceLimits = settings.TRACE_LIMITS
    if not _slots.acquire(timeout=limits.read_s * WALL_FACTOR):
        raise Conflict("Other traces are being read. Upload this one again in a minute.")
    try:
        problem = _problem(path, name, limits)
    finally:
        _slots.release()
    if problem is not None:
        raise problem


def _problem(path: Path, name: str, limits: TraceLimits) -> SpecInvalid | None:
    task = json.dumps({"path": str(path.absolute()), "name": name, "limits": asdict(limits)})
    answer, status = child_answer(MODULE, task, cpu_s=limits.read_s)
    return _read(answer) if answer else _died(status, limits)


def _read(answer: bytes) -> SpecInvalid | None:
    """Return what the process says of the file, None if it may be stored."""
    try:
        said = json.loads(answer)
        return refused(str(said["code"]), str(said["detail"])[:DETAIL_CHARS]) if said else None
    except (ValueError, TypeError, KeyError, RecursionError):
        log.error("trace_reader_failed", extra={"answer": answer[:200].decode(errors="replace")})
        return refused("reading", "Its reader gave no answer that can be used. An admin finds more in the log.")


def _died(status: int, limits: TraceLimits) -> SpecInvalid:
    """Return why there is no answer."""
    log.error("trace_reader_failed", extra={"status": status})
    if status in (-signal.SIGXCPU, -signal.SIGKILL):
        most = f"{limits.read_s:,} s of processor time, or {limits.read_s * WALL_FACTOR:,} s in all"
        return refused("time", f"Reading it takes more than {most}. Upload a part of it.")
    return refused(
        "reading", f"Reading it ended with status {status}. Upload a part of it, or write it in another format."
    )
