"""Remove directories of jobs, and files in them, that the control plane has named, for good and a little at a time.

The control plane asks by files of its own in the shared directory, and asks only for jobs that have ended. Whichever
agent has the rights does it; several may at once.
"""

import contextlib
import json
import os
import stat
import time
from collections.abc import Collection

from agents.files.atomic import open_directory, read_at
from agents.files.removal import entry_remove, tree_remove
from agents.protocol.fields import ULID
from agents.protocol.shared_dir import FILE_REMOVALS_DIR, GONE, JOB_DIR, JOBS_DIR, REMOVALS_DIR


def named_directories_remove(shared_path: str, *, spared: Collection[str], budget_s: float) -> None:
    """Remove directories for at most about ``budget_s`` seconds; ``spared`` are the jobs that run on this server."""
    end_s = time.monotonic() + budget_s
    try:
        named = sorted(os.listdir(os.path.join(shared_path, REMOVALS_DIR)))
        jobs_fd = open_directory(os.path.join(shared_path, JOBS_DIR))
    except OSError:
        return
    try:
        for job_id in named:
            if ULID.fullmatch(job_id) is None or job_id in spared:
                continue
            # At once out of the way, so that no part of it is ever taken for the whole.
            with contextlib.suppress(OSError):
                os.rename(job_id, GONE + job_id, src_dir_fd=jobs_fd, dst_dir_fd=jobs_fd)
            if not tree_remove(GONE + job_id, jobs_fd, end_s=end_s) and time.monotonic() > end_s:
                return
    finally:
        os.close(jobs_fd)


def named_files_remove(shared_path: str, *, spared: Collection[str], budget_s: float) -> None:
    """Remove files and folders that were named, for at most about ``budget_s`` seconds; ``spared`` as above.

    They are reached from the job's directory on by descriptors, and no link is followed on the way.
    """
    end_s = time.monotonic() + budget_s
    with contextlib.ExitStack() as opened:
        try:
            asked_fd = open_directory(os.path.join(shared_path, FILE_REMOVALS_DIR))
            opened.callback(os.close, asked_fd)
            jobs_fd = open_directory(os.path.join(shared_path, JOBS_DIR))
            opened.callback(os.close, jobs_fd)
            names = sorted(os.listdir(asked_fd))
        except OSError:
            return
        for name in names:
            job_id = name.partition(".")[0]
            if ULID.fullmatch(job_id) is None or job_id in spared:
                continue
            for parts in _paths(read_at(asked_fd, name)):
                if time.monotonic() > end_s:
                    return
                # Gone already, or nothing that we may remove: the control plane looks what is left.
                with contextlib.suppress(OSError):
                    _path_remove((job_id, JOB_DIR, *parts), jobs_fd, end_s=end_s)


def _paths(content: bytes | None) -> list[list[str]]:
    """Return the paths of a request, without any that leads elsewhere."""
    try:
        found = json.loads(content or b"{}")["paths"]
        return [parts for parts in found if parts and all(map(_is_name, parts))]
    except (ValueError, KeyError, TypeError):
        return []


def _is_name(part: object) -> bool:
    return isinstance(part, str) and part not in ("", ".", "..") and "/" not in part and "\0" not in part


def _path_remove(parts: tuple[str, ...], jobs_fd: int, *, end_s: float) -> None:
    above = os.dup(jobs_fd)
    try:
        for part in parts[:-1]:
            inner = open_directory(part, dir_fd=above)
            os.close(above)
            above = inner
        mode = stat.S_IMODE(os.fstat(above).st_mode)
        if mode & stat.S_IRWXU != stat.S_IRWXU:  # a job may have closed it to its own user
            os.fchmod(above, mode | stat.S_IRWXU)
        try:
            entry_remove(parts[-1], above, end_s=end_s)
        finally:
            if mode & stat.S_IRWXU != stat.S_IRWXU:
                os.fchmod(above, mode)
    finally:
        os.close(above)
