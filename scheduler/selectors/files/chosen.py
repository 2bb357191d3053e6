"""Files and folders of a job that a user has chosen, for a zip or to be removed."""

import os
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from scheduler.core.model.errors import NotFound
from scheduler.models import Job
from scheduler.selectors.files.archive import zip_choice
from scheduler.selectors.files.names import path_shown
from scheduler.selectors.files.opening import FOLDER_FLAGS, JobFiles, job_files
from scheduler.selectors.files.survey import walk

MOST_COUNTED = 20_000
BLOCK_BYTES = 512  # of st_blocks, whatever the file system has


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """What is chosen.

    Attributes:
        paths: The names of each file or folder, none of which lies in another one.
        files, num_bytes: Of all that is in them.
        disk_bytes: What they take on the disk, as agents measure the whole directory: of a sparse file less.
        is_whole: Whether all was counted; else they are the least that it may be.
    """

    paths: list[tuple[str, ...]]
    files: int
    num_bytes: int
    disk_bytes: int
    is_whole: bool

    @property
    def shown(self) -> list[str]:
        """Return the paths as text."""
        return [path_shown(parts) for parts in self.paths]


def files_chosen(job: Job, paths: Iterable[str]) -> Chosen:
    """Return what these paths name, in order.

    Raises:
        NotFound: One is not there, is a link, or is the directory itself: that is chosen by no path at all.
    """
    chosen, files, num_bytes, disk_bytes, seen = zip_choice(job, paths), 0, 0, 0, 0
    if () in chosen:
        raise NotFound("That is the whole directory. Name files or folders in it.")
    with job_files(job) as opened:
        for parts in chosen:
            for one in islice(walk(opened, parts), MOST_COUNTED + 1 - seen):
                seen, disk_bytes = seen + 1, disk_bytes + one.status.st_blocks * BLOCK_BYTES
                if one.kind == "file":
                    files, num_bytes = files + 1, num_bytes + one.status.st_size
    whole = seen <= MOST_COUNTED
    return Chosen(paths=chosen, files=files, num_bytes=num_bytes, disk_bytes=disk_bytes, is_whole=whole)


def is_there(files: JobFiles, parts: tuple[str, ...]) -> bool:
    """Return whether something has this path; a link counts as itself. Raises OSError where that cannot be seen."""
    above = os.dup(files.fd)
    try:
        for part in parts[:-1]:
            inner = os.open(part, FOLDER_FLAGS, dir_fd=above)
            os.close(above)
            above = inner
        os.stat(parts[-1], dir_fd=above, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return False
    finally:
        os.close(above)
    return True
