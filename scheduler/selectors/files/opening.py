"""Opens the directory of a job and what is in it: name by name below a descriptor, links never, files of the job alone.

The job may be running and hostile: what is a folder now may be a link a moment later. So no path is ever given to the
kernel, each name is opened without following a link, and what was opened is looked at once more before it is read.
"""

import errno
import io
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from django.conf import settings

from agents.protocol.shared_dir import JOB_DIR, JOBS_DIR
from scheduler.core.model.errors import NotFound
from scheduler.models import Job, Lease
from scheduler.selectors.files.names import path_shown

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# NONBLOCK: a FIFO that was put there since it was looked at must not make us wait.
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

NOT_STARTED = "It has no files yet: the job has not started."
GONE = "Its files are deleted."
SIMULATED = "It wrote no files: its server is simulated, so nothing of it was computed."
NOT_THERE = "Its directory cannot be found. Has the shared directory moved?"
UNREADABLE = "The web process may not read them. It has to run as the user of the agents, or as root."


class FilesAway(NotFound):
    """What the job wrote may be there, and cannot be looked at now: the disk is away or fails."""


@dataclass(frozen=True, slots=True)
class JobFiles:
    """The directory of a job, open.

    Attributes:
        fd: Its descriptor.
        uid: Whose it is. A file of another user got there by a link that its owner did not make: it is not read.
    """

    fd: int
    uid: int

    def folder(self, parts: tuple[str, ...]) -> int:
        """Return a new descriptor of a folder. Raises NotFound."""
        found = os.dup(self.fd)
        for depth, part in enumerate(parts, start=1):
            above = found
            try:
                found = os.open(part, FOLDER_FLAGS, dir_fd=above)
            except OSError as error:
                raise NotFound(_why_not(path_shown(parts[:depth]), "folder", error)) from None
            finally:
                os.close(above)
        return found

    def is_folder(self, parts: tuple[str, ...]) -> bool:
        """Return whether this is a folder; what is not there is none."""
        if not parts:
            return True
        try:
            above = self.folder(parts[:-1])
        except NotFound:
            return False
        try:
            return stat.S_ISDIR(os.stat(parts[-1], dir_fd=above, follow_symlinks=False).st_mode)
        except OSError:
            return False
        finally:
            os.close(above)

    def file(self, parts: tuple[str, ...]) -> io.FileIO:
        """Return a file, open for reading. Raises NotFound."""
        if not parts:
            raise NotFound("This is a folder, not a file.")
        above = self.folder(parts[:-1])
        try:
            return self.file_in(above, parts)
        finally:
            os.close(above)

    def file_in(self, folder_fd: int, parts: tuple[str, ...]) -> io.FileIO:
        """Return the file that has the last of these names in an open folder. Raises NotFound."""
        shown, name = path_shown(parts), parts[-1]
        try:
            self._check(shown, os.stat(name, dir_fd=folder_fd, follow_symlinks=False))
            file = io.FileIO(os.open(name, FILE_FLAGS, dir_fd=folder_fd))
        except OSError as error:
            raise NotFound(_why_not(shown, "file", error)) from None
        try:
            self._check(shown, os.fstat(file.fileno()))
        except NotFound:
            file.close()
            raise
        return file

    def _check(self, shown: str, status: os.stat_result) -> None:
        if stat.S_ISLNK(status.st_mode):
            raise NotFound(f"{shown} is a link. Links are not followed.")
        if stat.S_ISDIR(status.st_mode):
            raise NotFound(f"{shown} is a folder, not a file.")
        if not stat.S_ISREG(status.st_mode):
            raise NotFound(f"{shown} is no regular file. It is not opened.")
        if status.st_uid != self.uid:
            raise NotFound(f"{shown} belongs to another user than the job's directory. It is not read.")


@contextmanager
def job_files(job: Job) -> Iterator[JobFiles]:
    """Open the directory of a job, which the caller may see.

    Raises:
        NotFound: It has none, or it cannot be opened; the text is a sentence for the page. ``FilesAway``: not now.
    """
    if job.directory_removal_at is not None:
        raise NotFound(GONE)
    opened = _opened(job)
    try:
        yield JobFiles(opened, os.fstat(opened).st_uid)
    finally:
        os.close(opened)


def _opened(job: Job) -> int:
    above = None
    try:
        # The path of the shared directory is the admin's, who may have made links in it.
        found = os.open(Path(settings.SHARED_DIR) / JOBS_DIR, FOLDER_FLAGS & ~os.O_NOFOLLOW)
        for name in (job.pk, JOB_DIR):
            above = found
            try:
                found = os.open(name, FOLDER_FLAGS, dir_fd=above)
            finally:
                os.close(above)
    except PermissionError:
        raise NotFound(UNREADABLE) from None
    except OSError as error:
        if job.first_started_at is None:
            raise NotFound(NOT_STARTED) from None
        is_gone = above is not None and error.errno in (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)
        if _was_simulated(job):
            raise NotFound(SIMULATED) from None
        raise (NotFound if is_gone else FilesAway)(NOT_THERE) from None
    return found


def _was_simulated(job: Job) -> bool:
    lease = Lease.objects.filter(attempt__job=job).select_related("server").order_by("-opened_at").first()
    return lease is not None and lease.server.is_simulated


def _why_not(shown: str, kind: str, error: OSError) -> str:
    if error.errno == errno.ELOOP:
        return f"{shown} is a link. Links are not followed."
    if error.errno == errno.ENOTDIR:
        return f"{shown} is no folder. If it is a link: links are not followed."
    if error.errno in (errno.EACCES, errno.EPERM):
        return f"{shown} cannot be read: the job has closed it, and the web process has no right beyond that."
    return f"There is no {kind} {shown!r}."
