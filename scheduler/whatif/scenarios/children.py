"""Child processes of runs as the worker sees them: start, read messages, end. See ``child`` for the other side."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from clusterweb.config.children import child_environment

MOST_JOBS = 200_000
MOST_CPU_S = 900
MOST_BYTES = 8 * 2**30
# Of one message; the largest is the result.
MOST_MESSAGE_BYTES = 64 * 2**20
END_WITHIN_S = 5.0

Json = dict[str, Any]  # a task or a message
MODULE = "scheduler.whatif.scenarios.child"


class Child:
    """One process that makes one run.

    Attributes:
        done, total: Ended jobs and all jobs, from its last message.
        result: The result; None until it is sent.
        error: Why there is no result; empty until it has failed.
    """

    def __init__(self, task: Mapping[str, Any]) -> None:
        """Start it; ``task`` holds ``base`` (a path), ``variant`` and ``seed``."""
        self.done = self.total = 0
        self.result: Json | None = None
        self.error = ""
        limits = {"most_jobs": MOST_JOBS, "most_cpu_s": MOST_CPU_S, "most_bytes": MOST_BYTES}
        self._process = subprocess.Popen(  # noqa: S603  (our own module)
            [sys.executable, "-P", "-m", MODULE],  # -P: nothing of the folder below
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=tempfile.gettempdir(),
            env=child_environment(),
            start_new_session=True,
        )
        assert self._process.stdin
        self._process.stdin.write((json.dumps({**task, **limits}) + "\n").encode())
        self._process.stdin.flush()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        try:
            while line := self._process.stdout.readline(MOST_MESSAGE_BYTES):
                if line.endswith(b"\n") or len(line) == MOST_MESSAGE_BYTES:  # else it ended within a message
                    self._take(json.loads(line))
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
            self.error = "Its process sent what is no result, or a result that is too large."
            self._process.kill()
        status = self._process.wait()
        if self.result is None and not self.error:
            self.error = _why(status)

    def _take(self, message: Json) -> None:
        if "result" in message:
            self.result = dict(message["result"])
        elif "error" in message:
            self.error = str(message["error"])
        else:
            self.done, self.total = int(message["done"]), int(message["total"])

    @property
    def pid(self) -> int:
        """Return its process id."""
        return self._process.pid

    @property
    def ended(self) -> bool:
        """Return whether it has ended and all its messages are read."""
        return not self._reader.is_alive()

    def end(self) -> None:
        """Kill it and close its streams."""
        self._process.kill()
        self._reader.join(END_WITHIN_S)
        for stream in (self._process.stdin, self._process.stdout):
            if stream:
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
