"""What a training process prints: taken from a pipe into the log of its attempt, with secrets masked.

Nothing but the standard library, as ``supervise.py`` says.
"""

import contextlib
import fcntl
import os

from agents.core.diagnosis import TAIL_BYTES
from agents.files.job_log import JobLog
from agents.files.masking import Masker

PIPE_BYTES = 1024 * 1024
# Taken before anything else gets its turn.
TURN_BYTES = 8 * 1024 * 1024


class Output:
    """The pipe and the log behind it.

    Attributes:
        fd: Readable when there is something to take.
        write_fd: Where the training process writes.
        log: What is kept.
    """

    def __init__(self, log: JobLog, masker: Masker) -> None:
        self.log, self._masker = log, masker
        self.fd, self.write_fd = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        os.set_blocking(self.write_fd, True)
        with contextlib.suppress(OSError):
            fcntl.fcntl(self.fd, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        self._end = bytearray()  # kept even where the log had to drop it

    def take(self) -> bool:
        """Take output from the pipe into the log; return whether there may be more at once."""
        taken = 0
        while taken < TURN_BYTES:
            try:
                data = os.read(self.fd, PIPE_BYTES)
            except BlockingIOError:
                return False
            if not data:
                return False
            self._keep(self._masker.feed(data))
            taken += len(data)
        return True

    def take_all(self) -> bytes:
        """Take all that is left once no process can write any more; return the end of what was printed."""
        while self.take():
            pass
        self._keep(self._masker.rest())
        return bytes(self._end[-TAIL_BYTES:])

    def _keep(self, shown: bytes) -> None:
        self.log.write(shown)
        self._end += shown[-TAIL_BYTES:]
        if len(self._end) > 8 * TAIL_BYTES:
            del self._end[:-TAIL_BYTES]
