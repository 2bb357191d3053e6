"""Child processes of runs as the worker sees them: start, tasks, messages, end. See ``child`` for the other side."""

import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields
from pathlib import Path
from typing import Any

from clusterweb.config.children import child_environment
from scheduler.simulator.state.early_figures import MOMENTS, EarlyFigure

MOST_JOBS = 200_000
MOST_CPU_S = 900
MOST_BYTES = 8 * 2**30
# Of one message; the largest is the result.
MOST_MESSAGE_BYTES = 64 * 2**20
END_WITHIN_S = 5.0

Json = dict[str, Any]  # a task or a message
MODULE = "scheduler.whatif.scenarios.child"


class Child:
    """One process that makes runs, one after the other.

    Attributes:
        done, total: Ended jobs and all jobs of its run, from the last message.
        early: How its run went up to some moments, ``EarlyFigure`` as JSON.
        result: The result of its run; None until it is sent.
        error: Why there is no result; empty until the run has failed.
        ended: Whether the run has ended and all its messages are read.
    """

    def __init__(self) -> None:
        """Start it; it loads its code while it waits for a task."""
        self._process = subprocess.Popen(  # noqa: S603  (our own module)
            [sys.executable, "-P", "-m", MODULE],  # -P: nothing of the folder below
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=tempfile.gettempdir(),
            env=child_environment(),
            start_new_session=True,
        )
        self._lock, self._nonsense = threading.Lock(), ""  # why no run of it can have a result any more
        self._clear()
        self._is_read = False  # to the end of what it says: it is lost, or about to be
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _clear(self) -> None:
        self.done = self.total = 0
        self.early: list[dict[str, float]] = []
        self.result: Json | None = None
        self.error = ""
        self.ended = False

    @property
    def is_alive(self) -> bool:
        """Return whether it could make another run."""
        # In this order: while the reader waits for the process, ``poll`` knows nothing and says that it goes on.
        return self._process.poll() is None and not self._is_read

    def begin(self, task: Mapping[str, Any]) -> None:
        """Begin a run after the last one has ended; ``task`` holds ``base`` (a path), ``variant`` and ``seed``."""
        with self._lock:
            self._clear()
            self.error = self._nonsense
        limits = {"most_jobs": MOST_JOBS, "most_cpu_s": MOST_CPU_S, "most_bytes": MOST_BYTES}
        assert self._process.stdin
        try:
            self._process.stdin.write((json.dumps({**task, **limits}) + "\n").encode())
            self._process.stdin.flush()
        except BrokenPipeError:
            self._reader.join(END_WITHIN_S)
        if self._process.poll() is not None:  # it was lost meanwhile, perhaps before the reader knew of this run
            self._reader.join(END_WITHIN_S)
            self._finish(self._process.returncode)

    def _read(self) -> None:
        assert self._process.stdout
        try:
            while line := self._process.stdout.readline(MOST_MESSAGE_BYTES):
                if line.endswith(b"\n") or len(line) == MOST_MESSAGE_BYTES:  # else it ended within a message
                    self._take(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            with self._lock:
                self.error = self._nonsense = "Its process sent what is no result, or a result that is too large."
            self._kill()
        self._is_read = True
        self._finish(self._process.wait())

    def _take(self, message: Json) -> None:
        if "result" in message:
            self.result = dict(message["result"])
        elif "error" in message:
            self.error = str(message["error"])
        elif "early" in message:
            self._take_early(message["early"])
        elif "ended" in message:
            self._finish(int(message["ended"]))
        else:
            self.done, self.total = int(message["done"]), int(message["total"])

    def _take_early(self, told: Json) -> None:
        figure = {field.name: float(told[field.name]) for field in fields(EarlyFigure)}
        if len(self.early) == MOMENTS or not all(map(math.isfinite, figure.values())):
            raise ValueError("no early figure")
        self.early = [*self.early, figure]  # anew: another thread may be writing the list

    def _finish(self, status: int) -> None:
        """Note that the run has ended; without a result or an error its status is the reason."""
        if self.result is None and not self.error:
            self.error = _why(status)
        self.ended = True

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    def _kill(self) -> None:
        """Kill the process and the run, which are a group of their own."""
        if self._process.poll() is None:  # not waited for, so the number is still its own
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def end(self) -> None:
        """Kill it with its run and close its streams."""
        self._kill()
        self._reader.join(END_WITHIN_S)
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
                with suppress(BrokenPipeError):
                    stream.close()


def _why(status: int) -> str:
    if status == -signal.SIGXCPU or status == -signal.SIGKILL:
        return f"It needed more than {MOST_CPU_S} s of processor time, or was killed."
    return f"Its process ended with status {status}."


def base_file(folder: Path, scenario_id: str, content: bytes) -> Path:
    """Return the file with a starting point, written once, whole or not at all."""
    path = folder / f"{scenario_id}.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = path.with_suffix(f".{os.getpid()}.partial")
        partial.write_bytes(content)
        partial.replace(path)
    return path
