"""A job's directory: the same at every attempt and on every rank, laid in once, held by one attempt at a time.

    jobs/<job>/dir              working directory of every process; of the job's user
    jobs/<job>/home             HOME; likewise
    jobs/<job>/laid.json        what was laid in at the first start; ours
    jobs/<job>/attempt-<e>-<n>  mark of the attempt that holds the directory (``job_hold.py``); ours

Several servers may begin at once, as the ranks of a gang do, and each may stop at any point. So what is laid in is made
aside; the first ``laid.json``, an exclusive create, says which of the makings counts; and any server that finds that
one still aside moves it into its place. After that nothing is ever laid in again: what the job changed or deleted stays
so.
"""

import contextlib
import errno
import json
import os
import shutil
from collections.abc import Callable
from typing import Any

from agents.core.records import HOME_DIR
from agents.files.atomic import create_at, open_directory, read_at
from agents.files.job_hold import Hold
from agents.files.ownership import tree_give
from agents.protocol.shared_dir import JOB_DIR, JOBS_DIR

LAID_FILE = "laid.json"

# Writes into the directory whose descriptor it gets, and returns what ``laid.json`` is to say of it.
LayIn = Callable[[int], dict[str, Any]]


class DirectoryRefused(Exception):
    """The attempt may not have the directory; the text is a sentence for the owner of the job."""


class JobDir:
    """One job's directory, for one attempt.

    Attributes:
        fd: Of the folder around it, which holds nothing that the job may write but ``dir`` and ``home``.
        path, home: Where working directory and HOME are, for the job's environment.
    """

    def __init__(self, shared_path: str, job_id: str, hold: Hold) -> None:
        """Open it; it is made where there is none. Raises OSError."""
        jobs = os.path.join(shared_path, JOBS_DIR)
        self._hold = hold
        self.path = os.path.join(jobs, job_id, JOB_DIR)
        self.home = os.path.join(jobs, job_id, HOME_DIR)
        with contextlib.suppress(FileExistsError):
            os.mkdir(jobs, 0o711)
        jobs_fd = open_directory(jobs)
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(job_id, 0o711, dir_fd=jobs_fd)
            self.fd = open_directory(job_id, dir_fd=jobs_fd)
            for descriptor in (jobs_fd, self.fd):
                with contextlib.suppress(
                    PermissionError
                ):  # the umask took it away; another agent's user has seen to it
                    os.fchmod(descriptor, 0o711)
        finally:
            os.close(jobs_fd)

    @property
    def is_taken(self) -> bool:
        """Return whether a later attempt has begun in the directory, so that this one must not write it any more."""
        try:
            return self._hold.is_over(os.listdir(self.fd))
        except OSError:
            return False

    def prepare(self, *, attempt_id: str, uid: int | None, lay_in: LayIn) -> tuple[int, bool]:
        """Take the directory for this attempt; return the descriptor of the working directory and whether it is new.

        Args:
            attempt_id: Who asks.
            uid: User of the job; None for our own. A job that had another user before gets at all its files.
            lay_in: Called at the first start of the job alone.

        Raises:
            DirectoryRefused: A later attempt has it, or it cannot be given to the job's user.
            OSError.
        """
        self._take(attempt_id)
        staged = _staged(self.fd)
        is_new = not staged and self._lay(attempt_id, uid, lay_in)
        staged = staged or _staged(self.fd)
        if staged:
            with contextlib.suppress(FileNotFoundError):  # in its place already
                os.rename(staged, JOB_DIR, src_dir_fd=self.fd, dst_dir_fd=self.fd)
        os.close(self._folder(HOME_DIR, uid))
        return self._folder(JOB_DIR, uid), is_new

    def _take(self, attempt_id: str) -> None:
        if self._hold.number:
            create_at(self.fd, self._hold.mark, attempt_id.encode())  # there already for the other ranks of a gang
        names = os.listdir(self.fd)
        if self._hold.is_over(names):
            raise DirectoryRefused("A later attempt of the job has begun in its directory.")
        for mark in self._hold.earlier(names):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(mark, dir_fd=self.fd)

    def _lay(self, attempt_id: str, uid: int | None, lay_in: LayIn) -> bool:
        """Make the directory aside, with all that belongs in it; return whether it is the one that counts."""
        staged = f".new.{attempt_id}"
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(staged, dir_fd=self.fd)  # no job was ever in it
        os.mkdir(staged, 0o700, dir_fd=self.fd)
        staged_fd = open_directory(staged, dir_fd=self.fd)
        try:
            laid = lay_in(staged_fd)
            _own(staged_fd, uid)
            os.fsync(staged_fd)
        finally:
            os.close(staged_fd)
        said = json.dumps({"attempt": attempt_id, "staged": staged, **laid}).encode()
        is_first = create_at(self.fd, LAID_FILE, said)
        if not is_first:
            shutil.rmtree(staged, dir_fd=self.fd)
        return is_first

    def _folder(self, name: str, uid: int | None) -> int:
        """Return the descriptor of a folder of the job, made empty where it is not there or is none.

        Other ranks may be doing the same. So nothing that is a folder is ever taken away: it may be one that another
        rank has just made, and that its process already writes in.
        """
        while True:
            try:
                descriptor = open_directory(name, dir_fd=self.fd)
                break
            except FileNotFoundError:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(name, 0o700, dir_fd=self.fd)
            except OSError as error:
                if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                    raise
                with contextlib.suppress(FileNotFoundError, IsADirectoryError):
                    os.unlink(name, dir_fd=self.fd)  # a link or a file in its place; of a link the target stays
        try:
            _own(descriptor, uid)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor


def _staged(dir_fd: int) -> str:
    """Return the name under which the directory was made; empty where none was."""
    try:
        said = json.loads(read_at(dir_fd, LAID_FILE) or b"{}")
        return str(said.get("staged", ""))
    except (ValueError, AttributeError):
        return ""


def _own(dir_fd: int, uid: int | None) -> None:
    """Make the user of the job the owner of a folder and of all in it that was its last user's."""
    owner, wanted = os.fstat(dir_fd).st_uid, os.geteuid() if uid is None else uid
    if owner == wanted:
        return
    if os.geteuid() != 0:
        raise DirectoryRefused(f"The job's directory is user {owner}'s, and jobs of this server run as user {wanted}.")
    tree_give(dir_fd, wanted)
