"""Hand a directory over to another user with all that its owner has in it. For root alone.

What lies in it was made by a job. Links are handed over themselves, never what they lead to. A file with a name outside
the directory as well is left as it is: it may be another job's, or ours, and the job has put a second name of it here.
"""

import os
import stat
from collections import Counter


def tree_give(dir_fd: int, uid: int) -> None:
    """Give the directory to a user, the directory itself last, so that a half-done hand-over is seen and done again.

    Raises:
        OSError: It cannot be done, as where folders lie too deep in each other.
    """
    owner = os.fstat(dir_fd).st_uid
    names_of: Counter[tuple[int, int]] = Counter()
    try:
        for _, folders, files, fd in os.fwalk(".", dir_fd=dir_fd, follow_symlinks=False):
            for name in (*folders, *files):
                status = os.stat(name, dir_fd=fd, follow_symlinks=False)
                if status.st_uid != owner:
                    continue
                if stat.S_ISDIR(status.st_mode) or status.st_nlink == 1:
                    os.chown(name, uid, uid, dir_fd=fd, follow_symlinks=False)
                    continue
                names_of[status.st_dev, status.st_ino] += 1
                if names_of[status.st_dev, status.st_ino] == status.st_nlink:  # all its names lie in here
                    os.chown(name, uid, uid, dir_fd=fd, follow_symlinks=False)
    except RecursionError:
        raise OSError("its folders lie too deep in each other") from None
    os.fchown(dir_fd, uid, uid)
