"""The process that lays out the folder of a job before its first start, forked by the supervisor.

The supervisor goes on meanwhile: it hears of an order that is taken back, and starts the job only if it still may.
"""

import contextlib
import fcntl
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

from agents.core.records import Launch
from agents.files.atomic import open_directory
from agents.files.attempt_dir import AttemptDir
from agents.files.code_unpack import UnpackFailed, code_unpack
from agents.files.job_dir import DirectoryRefused, JobDir
from agents.files.job_hold import Hold
from agents.protocol.desired_state import AttemptWanted
from agents.supervisor.places import files_lay_in

MOST_DETAIL_BYTES = 1000
LOCK = "unpacking.lock"  # beside the directory of the job


class Unpacking:
    """The process that lays out the folder of one job.

    Attributes:
        pid: Of the process; the supervisor reaps it.
    """

    def __init__(self, directory: AttemptDir, launch: Launch, *, output_fd: int) -> None:
        self._is_stopped = False
        self._said, said_write = os.pipe2(os.O_CLOEXEC)
        self.pid = os.fork()
        if self.pid == 0:
            exit_status = 1
            try:
                exit_status = _unpack(directory, launch, output_fd=output_fd, said_fd=said_write)
            except Exception:
                traceback.print_exc(file=sys.stderr)
            finally:
                os._exit(exit_status)
        os.close(said_write)

    def stop(self) -> None:
        """End it, since the job is not to start; what it has made is made anew another time."""
        self._is_stopped = True
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)  # not reaped yet, so the number is its own

    def failure(self, status: int) -> str:
        """Return why the folder could not be laid out; empty where it was, or where the job is not to start."""
        said = os.read(self._said, MOST_DETAIL_BYTES).decode(errors="replace")
        os.close(self._said)
        if status == 0 or self._is_stopped:
            return ""
        return said or "The folder of the job could not be unpacked. The log of its supervisor says more."


def _unpack(directory: AttemptDir, launch: Launch, *, output_fd: int, said_fd: int) -> int:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD, signal.SIGHUP, signal.SIGURG):
        signal.signal(number, signal.SIG_DFL)

    def says(text: str) -> None:
        os.write(output_fd, f"[clusterweb: {text}]\n".encode())

    try:
        hold = Hold(launch.epoch, launch.order.number)
        folder_lay_out(directory.shared_path, launch.order, hold, uid=launch.uid, says=says)
    except (UnpackFailed, DirectoryRefused) as error:
        os.write(said_fd, str(error).encode()[:MOST_DETAIL_BYTES])
        return 1
    except OSError as error:
        os.write(said_fd, f"The folder of the job could not be unpacked: {error.strerror}.".encode())
        return 1
    return 0


def folder_lay_out(
    shared_path: str, order: AttemptWanted, hold: Hold, *, uid: int | None, says: Callable[[str], None]
) -> None:
    """Make the directory of a job with its sent folder in it, unless an attempt or another rank has done so.

    Raises:
        UnpackFailed, DirectoryRefused, OSError.
    """
    shared_fd = open_directory(shared_path)

    def lay_in(dir_fd: int) -> dict[str, Any]:
        code_unpack(shared_fd, dir_fd, digest=order.code, says=says)
        return {"code": order.code, **files_lay_in(order.files, dir_fd)}

    job_dir = JobDir(shared_path, order.job_id, hold)
    try:
        with _one_after_another(job_dir.fd):
            work_fd, _ = job_dir.prepare(attempt_id=order.attempt_id, uid=uid, lay_in=lay_in)
            os.close(work_fd)
    finally:
        os.close(shared_fd)


@contextlib.contextmanager
def _one_after_another(holder_fd: int) -> Iterator[None]:
    """Let the ranks of a gang, which begin at once, wait for the first; the system ends a lock with its process."""
    lock = os.open(LOCK, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=holder_fd)
    try:
        fcntl.lockf(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)
