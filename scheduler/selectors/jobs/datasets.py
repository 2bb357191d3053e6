"""Items of datasets that jobs could not read and left out.

Jobs write these files (``<dataset>/bad.jsonl``, below a folder of their user where they have one), so their content is
taken as plain text, and only the end of a file is read.
"""

import json
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from django.conf import settings

from scheduler.models import Attempt
from scheduler.selectors.jobs.rows import BadItemRow
from scheduler.selectors.rows import Json
from scheduler.selectors.visibility import Actor, require_job

DATASETS_DIR, FILE = "datasets", "bad.jsonl"  # as the agents call them
MOST_FILES, MOST_ITEMS = 1_000, 500
TAIL_BYTES = 512 * 1024
TEXT_CHARS = 300


def job_bad_items(user: Actor, job: str) -> list[BadItemRow]:
    """Return the items that the attempts of a job left out, oldest first in each dataset.

    Raises:
        NotFound: There is no such job, or ``user`` may not see it.
    """
    attempts = dict(Attempt.objects.filter(job=require_job(user, job)).values_list("pk", "number"))
    found: list[BadItemRow] = []
    for path in _files(Path(settings.SHARED_DIR) / DATASETS_DIR):
        for entry in _entries(path):
            number = attempts.get(str(entry.get("job")))
            if number is not None:
                row: BadItemRow = {
                    "dataset": _text(path.parent.name),
                    "attempt": number,
                    "key": _text(entry.get("key")),
                    "error": _text(entry.get("error")),
                }
                found.append(row)
    return found[:MOST_ITEMS]


def _text(value: object) -> str:
    return str(value)[:TEXT_CHARS]


def _files(datasets: Path) -> list[Path]:
    found = sorted([*datasets.glob(f"*/{FILE}"), *datasets.glob(f"*/*/{FILE}")], key=lambda path: path.parent.name)
    return found[:MOST_FILES]


def _entries(path: Path) -> Iterator[Json]:
    """Yield the whole lines at the end of a file that are ours."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            return
        file.seek(max(0, status.st_size - TAIL_BYTES))
        lines = file.read(TAIL_BYTES).splitlines()
    for line in lines:
        try:
            entry = json.loads(line)
        except ValueError:
            continue  # cut in two by the beginning of the tail, or written so
        if isinstance(entry, dict):
            yield entry
