"""Asks a limited process of our own code, which reads what strangers sent; no file costs the web server its life.

The process takes its task as JSON in its only argument, limits itself (``clusterweb.config.children``), and answers in
one line of JSON. It has no database, no broker and no key.
"""

import subprocess
import sys
import tempfile
import threading

from clusterweb.config.children import child_environment

MOST_ANSWER_BYTES = 16 * 1024
# On a busy machine a second of CPU time takes several.
WALL_FACTOR = 4


def child_answer(module: str, task: str, *, cpu_s: int) -> tuple[bytes, int]:
    """Return what the process says, at most ``MOST_ANSWER_BYTES``, and its exit status.

    Args:
        module: What is run.
        task: JSON.
        cpu_s: CPU seconds to which it limits itself; it is ended after ``WALL_FACTOR`` times as long.
    """
    process = subprocess.Popen(  # noqa: S603  (our own module)
        [sys.executable, "-P", "-m", module, task],  # -P: nothing of the folder below
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        cwd=tempfile.gettempdir(),
        env=child_environment(),
        start_new_session=True,
    )
    too_late = threading.Timer(cpu_s * WALL_FACTOR, process.kill)
    too_late.start()
    try:
        assert process.stdout
        answer = process.stdout.read(MOST_ANSWER_BYTES)
    finally:
        too_late.cancel()
        process.kill()  # it has said all that is read of it
        process.communicate()
    return answer, process.returncode
