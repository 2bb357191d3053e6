"""Measure how long the end of a very long log takes to appear."""

import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from agents.files.job_log import SEGMENT_BYTES
from benchmarks.bench_pages import measured_apart

QUESTION = "Seconds until a page shows the last 1,000 lines of a log of 1 GB, the file system's memory of it dropped"
TARGET_S = 1.0
LOG_BYTES = 10**9

LINE = "2026-03-07T14:32:07.123Z step {step:>9} loss 0.4217 accuracy 0.8731 lr 0.001 images/s 1342.7\n"


def write_log(directory: Path) -> int:
    """Write the log as an agent does, in segments; return its bytes."""
    directory.mkdir(parents=True)
    offset = step = 0
    while offset < LOG_BYTES:
        lines = [LINE.format(step=step + n) for n in range(SEGMENT_BYTES // len(LINE.format(step=0)))]
        data = "".join(lines).encode()
        path = directory / f"log.{offset:020d}"
        path.write_bytes(data)
        offset, step = offset + len(data), step + len(lines)
        forget(path)
    return offset


def forget(path: Path) -> None:
    """Drop what the system keeps of a file in memory, so that the next reader goes to the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def bytes_read() -> int:
    """Return how many bytes this process has read by system calls."""
    fields = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return int(fields["rchar"])


def measured(call: Callable[[], str], last_line: str) -> dict[str, Any]:
    """Return time and bytes of a request whose answer must hold the last line."""
    before, begun_s = bytes_read(), time.perf_counter()
    text = call()
    took_s = time.perf_counter() - begun_s
    assert last_line in text
    return {"seconds": round(took_s, 3), "read_mb": round((bytes_read() - before) / 1e6, 2)}


def run() -> dict[str, Any]:
    """Write the log and ask for it in a process of its own."""
    with tempfile.TemporaryDirectory(prefix="clusterweb-bench-") as folder:
        return measured_apart("benchmarks.bench_logs", folder)


def main() -> None:
    """Ask for the log by page, by REST, and from its middle; print what was measured."""
    import django

    django.setup()

    from django.conf import settings
    from django.core.management import call_command
    from django.test import Client

    from scheduler.core.model.lifecycle import JobState
    from tests.support.rows.factories import job_make, user_make

    settings.STORAGES["staticfiles"] = {"BACKEND": "django.contrib.staticfiles.storage.StaticFilesStorage"}
    settings.STATIC_ROOT.mkdir(exist_ok=True)
    call_command("migrate", verbosity=0)
    client, job = Client(), job_make(state=JobState.COMPLETED)
    client.force_login(user_make("admin", admin=True))
    for known in ("/healthz", "/"):
        client.get(known)  # a new process loads its code at the first request
    directory = settings.SHARED_DIR / "attempts" / job.attempts.get().pk
    num_bytes = write_log(directory)
    newest = directory / max(path.name for path in directory.iterdir())
    last = newest.read_text()[-len(LINE) :].split()[-9]  # the number of the last step
    for path in directory.iterdir():
        forget(path)
    page, rest = f"/jobs/J-{job.number}/logs", f"/api/v1/jobs/{job.number}/logs?tail=1000"
    found = {
        "log_bytes": num_bytes,
        "page_first": measured(lambda: client.get(page).content.decode(), last),
        "page_again": measured(lambda: client.get(page).content.decode(), last),
        "rest": measured(lambda: str(client.get(rest).json()), last),
        "page_at_the_middle": measured(lambda: client.get(f"{page}?at={num_bytes // 2}").content.decode(), "loss"),
        "target_s": TARGET_S,
    }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main()
