"""A short path for the temporary files of an attempt, which lie in its scratch directory.

The name of a Unix socket has room for 107 bytes; Python's ``multiprocessing`` puts such sockets below ``TMPDIR``.
"""

import os
import tempfile


def short_tmp(attempt_id: str, folder: str) -> str:
    """Return a short path to the folder, or the folder itself where none can be made."""
    link = _link(attempt_id)
    try:
        os.symlink(folder, link)
    except OSError:
        return folder
    return link


def short_tmp_remove(attempt_id: str) -> None:
    """Remove the short path; what it leads to stays."""
    try:
        os.unlink(_link(attempt_id))
    except OSError:
        return


def _link(attempt_id: str) -> str:
    return os.path.join(tempfile.gettempdir(), f"clusterweb-{attempt_id}")
