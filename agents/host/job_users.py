"""The unix users of jobs: which numbers may be given to them, and folders that belong to one of them alone."""

import contextlib
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


def folders_of(uid: int | None, *, shared: Path, cache: Path, scratch: Path) -> tuple[Path, Path]:
    """Return the folders for cached dataset items and for notes about datasets, shared by the jobs of one user.

    A folder of another owner is not used: the job then uses its scratch.
    """
    datasets = shared / DATASETS_DIR
    if uid is None:
        with contextlib.suppress(OSError):
            datasets.mkdir(parents=True, exist_ok=True, mode=0o711)  # a confined job could not
        return cache, datasets
    if not own_folder(cache.parent, uid):
        cache = scratch / "cache"
    own = datasets / str(uid)
    return cache, own if own_folder(own, uid) else scratch / DATASETS_DIR
