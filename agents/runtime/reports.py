"""Reports of the job to its supervisor: one JSON line each, appended in one write.

Decides how a report survives a full disk or a missing directory: it is kept, at most one of a kind, and goes out with
the next one. Training never waits for it and never fails by it. The lines are parsed by ``agents/core/records.py``.
"""

import json
import math
import os
import sys
from collections import deque
from pathlib import Path
from typing import SupportsFloat

RATE_WINDOW = 20


def say(text: str) -> None:
    """Write one line for people to the log of the job."""
    sys.stderr.write(f"clusterweb: {text}\n")
    sys.stderr.flush()


def finite(value: SupportsFloat | None) -> float | None:
    """Return the value as a float; None for what JSON cannot hold: nothing, not a number, infinity."""
    if value is None:
        return None
    number = float(value)
    return number if math.isfinite(number) else None


class ReportFile:
    """Appends reports to the file that the supervisor reads; without a file it forgets them."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._unsent: dict[str, bytes] = {}
        self._torn = False
        self._in_trouble = False

    def send(self, event: str, **fields: object) -> None:
        """Append one report. It replaces an unsent one of the same kind, and never raises for the disk's sake."""
        if self._path is None:
            return
        self._unsent.pop(event, None)
        self._unsent[event] = json.dumps({"event": event, **fields}, allow_nan=False).encode() + b"\n"
        try:
            self._append(self._path, b"".join(self._unsent.values()))
        except OSError as error:
            if not self._in_trouble:
                say(f"cannot write reports, training goes on: {error}")
            self._in_trouble = True
        else:
            self._unsent.clear()
            self._in_trouble = False

    def _append(self, path: Path, lines: bytes) -> None:
        # A line cut off by a full disk must not swallow the next one. Whole lines of that write go out twice, which
        # changes nothing: the newest report of a kind counts.
        data = b"\n" + lines if self._torn else lines
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            written = os.write(descriptor, data)
        finally:
            os.close(descriptor)
        self._torn = written != len(data)
        if self._torn:
            raise OSError(f"only {written} of {len(data)} bytes fitted")


class Rate:
    """Speed over the newest ``RATE_WINDOW`` reports, so that a slow start is soon forgotten."""

    def __init__(self, *, step: int, now_s: float) -> None:
        self._marks: deque[tuple[float, int]] = deque([(now_s, step)], maxlen=RATE_WINDOW)

    def steps_per_s(self, *, step: int, now_s: float) -> float | None:
        """Note where training stands and return its speed; None before the first step is done."""
        first_s, first_step = self._marks[0]
        self._marks.append((now_s, step))
        if now_s <= first_s or step <= first_step:
            return None
        return (step - first_step) / (now_s - first_s)
