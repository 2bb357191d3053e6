"""The unix users of jobs: which numbers may be given to them, and folders that belong to one of them alone."""

import os
import pwd
import stat
from pathlib import Path

from agents.core.records import DATASETS_DIR

# Numbers without an account, between those of people and those that systemd gives away.
FIRST_UID = 50_000
LAST_UID = 59_999


def is_free(uid: int) -> bool:
    """Return whether the number may be given to jobs: in our range and without an account."""
    if not FIRST_UID <= uid <= LAST_UID:
        return False
    try:
        pwd.getpwuid(uid)
    except KeyError:
        return True
    return False


def own_folder(path: Path, uid: int) -> bool:
    """Make a folder that belongs to the user alone; return False if another user owns it or it cannot be made."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o711)
        try:
            os.mkdir(path, 0o700)
            os.chown(path, uid, uid, follow_symlinks=False)
        except FileExistsError:
            pass
        status = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == uid


def folders_of(uid: int | None, *, queue_id: int, shared: Path, cache: Path, scratch: Path) -> tuple[Path, Path]:
    """Return the folders for cached dataset items and for notes about datasets, shared by the jobs of one queue.

    A folder of another owner is not used: the job then uses its scratch.

    Args:
        uid: User of the queue's jobs; None for ours. Confined jobs of other queues cannot open the folders then.
        queue_id: The queue.
        shared: Directory that all servers see.
        cache: What ``cache_folder`` says.
        scratch: Of the attempt.
    """
    owner = os.getuid() if uid is None else uid
    # Of ours there is a folder for each queue below that of the server, which has to be there before a job is confined.
    folders = (cache.parent,) if uid is not None else (cache.parents[1], cache)
    if not all(own_folder(folder, owner) for folder in folders):
        cache = scratch / "cache"
    own = shared / DATASETS_DIR / (f"queue-{queue_id}" if uid is None else str(uid))
    return cache, own if own_folder(own, owner) else scratch / DATASETS_DIR
