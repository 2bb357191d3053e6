"""The process journal of a server: one line on disk for every start, stop, continue and exit of a training process.

It proves afterwards whether a job ran twice. Supervisors append to it, each line with one write. Imports little, as
every start of a supervisor waits for it.
"""

import json
import os
import sys
import time

from agents.core.records import Launch
from agents.protocol.ports import ProcessIdentity

FILE = "journal.jsonl"
OLD_FILE = "journal.1.jsonl"
MOST_BYTES = 32 * 1024 * 1024


def journal_append(launch: Launch, event: str, trainer: ProcessIdentity) -> None:
    """Append one line, durably. A disk that is full or gone costs the line, never the job."""
    line = {
        "event": event,
        "attempt_id": launch.order.attempt_id,
        "job_id": launch.order.job_id,
        "server_id": launch.server_id,
        "epoch": launch.epoch,
        "generation": launch.order.generation,
        "boot_id": trainer.boot_id,
        "pid": trainer.pid,
        "start_ticks": trainer.start_ticks,
        "gpus": list(launch.order.gpu_indexes),
        "boottime_s": time.clock_gettime(time.CLOCK_BOOTTIME),
    }
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
        descriptor = os.open(os.path.join(launch.journal_dir, FILE), flags, 0o600)
        try:
            os.write(descriptor, json.dumps(line, separators=(",", ":")).encode() + b"\n")
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        sys.stderr.write(f"journal_not_written {event}: {error}\n")  # the supervisor's own log


def journal_rotate(directory: str) -> None:
    """Set a large journal aside, keeping the newest old one; called when the agent starts."""
    path = os.path.join(directory, FILE)
    if os.path.exists(path) and os.path.getsize(path) > MOST_BYTES:
        os.replace(path, os.path.join(directory, OLD_FILE))
