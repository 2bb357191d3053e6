"""Asks a limited process of our own code, which reads what strangers sent; no file costs the web server its life.

The process takes its task as JSON in its only argument, limits itself (``clusterweb.config.children``), and answers in
one line of JSON. It has no database, no broker and no key of ours. Programs that it starts end with it.
"""

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import threading

from clusterweb.config.children import child_environment

MOST_ANSWER_BYTES = 16 * 1024
# On a busy machine a second of CPU time takes several.
WALL_FACTOR = 4


def child_answer(module: str, task: str, *, cpu_s: int, secret: bytes = b"") -> tuple[bytes, int]:
    """Return what the process says, at most ``MOST_ANSWER_BYTES``, and its exit status.

    Args:
        module: What is run.
        task: JSON.
        cpu_s: CPU seconds to which it limits itself; it is ended after ``WALL_FACTOR`` times as long.
        secret: What it reads from its standard input, where no other process sees it; at most what a pipe takes.
    """
    process = subprocess.Popen(  # noqa: S603  (our own module)
        [sys.executable, "-P", "-m", module, task],  # -P: nothing of the folder below
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=tempfile.gettempdir(),
        env=child_environment(),
        start_new_session=True,
    )
    assert process.stdin
    assert process.stdout
    too_late = threading.Timer(cpu_s * WALL_FACTOR, _end, [process])
    too_late.start()
    try:
        with contextlib.suppress(BrokenPipeError), process.stdin:
            process.stdin.write(secret)
        answer = process.stdout.read(MOST_ANSWER_BYTES)
    finally:
        too_late.cancel()
        _end(process)  # it has said all that is read of it
        process.wait()
        process.stdout.close()
    return answer, process.returncode


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and all that it started; it is not reaped yet, so the group's number is still its own."""
    if process.returncode is None:
        os.killpg(process.pid, signal.SIGKILL)
