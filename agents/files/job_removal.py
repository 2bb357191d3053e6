"""Remove directories of jobs that the control plane has named, for good and a little at a time.

The control plane asks by files of its own in the shared directory, and asks only for jobs that have ended. Whichever
agent has the rights does it; several may at once.
"""

import contextlib
import os
import time
from collections.abc import Collection

from agents.files.atomic import open_directory
from agents.files.removal import tree_remove
from agents.protocol.fields import ULID
from agents.protocol.shared_dir import GONE, JOBS_DIR, REMOVALS_DIR


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
