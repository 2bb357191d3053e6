"""The local directories of attempts: on the disk of their server, removed with them.

Made by supervisors. The agent alone removes them, a little at a time, as a job may leave a million files, and also
those of supervisors that were killed.
"""

import contextlib
import os
import time
from collections.abc import Collection

from agents.core.records import SCRATCH_DIR
from agents.files.atomic import open_directory
from agents.files.removal import tree_remove
from agents.protocol.fields import ULID


def scratch_root(state_dir: str) -> str:
    """Return the folder of all scratch directories of a server."""
    return os.path.join(state_dir, SCRATCH_DIR)


def scratch_make(state_dir: str, attempt_id: str, *, uid: int | None) -> int:
    """Make the directory of an attempt; return the descriptor of the folder that it is in. Raises OSError."""
    root = scratch_root(state_dir)
    with contextlib.suppress(FileExistsError):
        os.mkdir(root, 0o700)
    root_fd = open_directory(root)
    try:
        os.mkdir(attempt_id, 0o700, dir_fd=root_fd)
        if uid is not None:
            os.fchmod(root_fd, 0o711)
            os.chown(attempt_id, uid, uid, dir_fd=root_fd, follow_symlinks=False)
    except OSError:
        os.close(root_fd)
        raise
    return root_fd


def scratch_left(state_dir: str, live: Collection[str]) -> list[str]:
    """Return the attempts that have a directory and do not run; ``live`` are those that may."""
    try:
        names = os.listdir(scratch_root(state_dir))
    except OSError:
        return []
    return sorted(name for name in names if ULID.fullmatch(name) and name not in live)


def scratch_remove(state_dir: str, attempt_ids: Collection[str], *, budget_s: float) -> None:
    """Remove directories for at most about ``budget_s`` seconds; what is left is found again."""
    end_s = time.monotonic() + budget_s
    try:
        root_fd = open_directory(scratch_root(state_dir))
    except OSError:
        return
    try:
        for attempt_id in attempt_ids:
            tree_remove(attempt_id, root_fd, end_s=end_s)
    finally:
        os.close(root_fd)
