"""The attempt's directory, held by descriptor and made again when the job deletes it. Used by its supervisor alone."""

import contextlib
import os
import stat

from agents.core.records import CHECKPOINT_DIR, REPORT_FILE
from agents.files.atomic import create_at, open_directory, overwrite_at, read_at, write_at

WRITTEN_BY_JOB = (CHECKPOINT_DIR, REPORT_FILE)


class AttemptDir:
    """One attempt's directory.

    Attributes:
        path: Where it is, for the job's environment; every access goes by descriptor.
        fd: Of the directory.
        uid: User of the job; None for our own. A job with a user of its own can write its checkpoints and its
            reports, read what is meant for it, and nothing else in here.
    """

    def __init__(self, path: str) -> None:
        self.uid: int | None = None
        self.path = os.path.abspath(path)
        parent, self._name = os.path.split(self.path)
        self._parent_fd = open_directory(parent)
        self.fd = open_directory(self._name, dir_fd=self._parent_fd)

    @property
    def shared_path(self) -> str:
        """Return the shared directory, which holds the directories of all attempts and of all jobs."""
        return os.path.dirname(os.path.dirname(self.path))

    def restore(self) -> bool:
        """Make the directory again if it was deleted; return whether the descriptor changed. Raises OSError."""
        if os.fstat(self.fd).st_nlink > 0:
            return False
        with contextlib.suppress(FileExistsError):
            os.mkdir(self._name, 0o700, dir_fd=self._parent_fd)
        fresh = open_directory(self._name, dir_fd=self._parent_fd)
        os.close(self.fd)
        self.fd = fresh
        return True

    def read(self, name: str) -> bytes | None:
        """Return the content of a regular file, or None."""
        return read_at(self.fd, name)

    def create(self, name: str, content: bytes) -> bool:
        """Make a file; False when the name is taken. Raises OSError."""
        return create_at(self.fd, name, content)

    def write(self, name: str, content: bytes, *, durable: bool, reader: int | None = None) -> None:
        """Replace a file; ``reader`` is a group that may read it beside us. Raises OSError.

        Gets past what a job can put in the way: a directory of that name, and a disk that it filled.
        """
        try:
            write_at(self.fd, name, content, durable=durable, reader=reader)
        except IsADirectoryError:
            os.rename(name, f".moved.{name}.{os.getpid()}", src_dir_fd=self.fd, dst_dir_fd=self.fd)
            write_at(self.fd, name, content, durable=durable, reader=reader)
        except OSError:
            overwrite_at(self.fd, name, content)

    def write_for_job(self, name: str, content: bytes) -> None:
        """Replace a file that the job is to read. Raises OSError."""
        self.write(name, content, durable=False, reader=self.uid)

    def make_writable(self) -> None:
        """Make what the job writes here: the directory of its checkpoints and the file of its reports."""
        with contextlib.suppress(FileExistsError):
            os.mkdir(CHECKPOINT_DIR, 0o700, dir_fd=self.fd)
        # It does not run yet, so nothing is in the way; once it is confined it could not make the file.
        os.close(os.open(REPORT_FILE, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=self.fd))
        if self.uid is not None:
            for name in WRITTEN_BY_JOB:
                os.chown(name, self.uid, self.uid, dir_fd=self.fd, follow_symlinks=False)
            os.fchmod(self.fd, 0o711)

    def has_checkpoint(self, name: str) -> bool:
        """Return whether the attempt has this checkpoint, as a regular file with content."""
        return _is_file(self.fd, name)

    def resume_path(self, attempt_id: str, name: str) -> tuple[str, bool]:
        """Return the path of another attempt's checkpoint and whether it is there.

        The path is given even when the checkpoint is gone but others lie beside it: while reports were lost the job
        may have written newer ones and dropped this one, and the job-side runtime then takes the newest whole one. It
        is empty when the attempt has no checkpoints at all.
        """
        try:
            other_fd = open_directory(attempt_id, dir_fd=self._parent_fd)
        except OSError:
            return "", False
        try:
            found, any_left = _is_file(other_fd, name), _has_entries(other_fd)
            if any_left and self.uid is not None:
                _give_checkpoints(other_fd, self.uid)
        finally:
            os.close(other_fd)
        path = os.path.join(os.path.dirname(self.path), attempt_id, CHECKPOINT_DIR, name)
        return (path if any_left else ""), found


def _give_checkpoints(attempt_fd: int, uid: int) -> None:
    """Give a job the checkpoints of an attempt that ran as our own user, before this agent could give it one."""
    with contextlib.suppress(OSError):
        os.fchmod(attempt_fd, 0o711)
        checkpoints_fd = open_directory(CHECKPOINT_DIR, dir_fd=attempt_fd)
        try:
            if os.fstat(checkpoints_fd).st_uid != os.geteuid():
                return
            for name in os.listdir(checkpoints_fd):
                status = os.stat(name, dir_fd=checkpoints_fd, follow_symlinks=False)
                if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                    os.chown(name, uid, uid, dir_fd=checkpoints_fd, follow_symlinks=False)
            os.fchown(checkpoints_fd, uid, uid)
        finally:
            os.close(checkpoints_fd)


def _has_entries(attempt_fd: int) -> bool:
    try:
        checkpoints_fd = open_directory(CHECKPOINT_DIR, dir_fd=attempt_fd)
    except OSError:
        return False
    try:
        return bool(os.listdir(checkpoints_fd))
    finally:
        os.close(checkpoints_fd)


def _is_file(attempt_fd: int, name: str) -> bool:
    try:
        checkpoints_fd = open_directory(CHECKPOINT_DIR, dir_fd=attempt_fd)
    except OSError:
        return False
    try:
        status = os.stat(name, dir_fd=checkpoints_fd, follow_symlinks=False)
        return (status.st_mode & 0o170000) == 0o100000 and status.st_size > 0
    except OSError:
        return False
    finally:
        os.close(checkpoints_fd)
