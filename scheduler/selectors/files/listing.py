"""Lists one folder of a job, by name, a bounded part at a time."""

import heapq
import os
import stat
from collections.abc import Container, Iterable, Iterator
from datetime import UTC, datetime

from scheduler.core.model.errors import NotFound
from scheduler.models import Job
from scheduler.selectors.files.names import name_shown, path_parts, path_shown
from scheduler.selectors.files.opening import job_files
from scheduler.selectors.files.rows import FileRow, FolderRow
from scheduler.selectors.times import iso

# A job may have filled a folder with names: so many are looked at, whatever there are.
NAMES_LISTED = 200_000
# So many are looked at one by one for their times.
NAMES_SORTED = 5_000


def folder_list(job: Job, path: str = "", *, limit: int, after: str = "") -> FolderRow:
    """Return the names of a folder in order, from the first after ``after`` on.

    Raises:
        NotFound: There is no such folder. A job without files is no error: the row says why.
    """
    parts = path_parts(path)
    begin = path_parts(after)[-1] if path_parts(after) else ""
    try:
        with job_files(job) as files:
            folder = files.folder(parts)
            try:
                return _part(folder, parts, limit, begin, names_in(folder))
            finally:
                os.close(folder)
    except NotFound as missing:
        if parts:
            raise
        return {"path": "", "results": [], "next": None, "reason": str(missing)}


def _part(folder: int, parts: tuple[str, ...], limit: int, begin: str, found: Iterable[str]) -> FolderRow:
    names = heapq.nsmallest(limit + 1, (name for name in found if name > begin))
    rows = [file_row((*parts, name), status) for name in names[:limit] if (status := status_of(folder, name))]
    last = name_shown(names[limit - 1]) if len(names) > limit else None
    return {"path": path_shown(parts), "results": rows, "next": last, "reason": ""}


def folder_newest(
    job: Job, path: str, *, most: int, match: str = "", folders: Container[str] = ()
) -> tuple[list[FileRow], int]:
    """Return folders, then files, the newest first, and how many more there are; a very large folder by name.

    With ``match`` only names that have it in them, in whatever case, and of others those whose path is in ``folders``.

    Raises:
        NotFound: There is no such folder, or the job has no files.
    """
    parts = path_parts(path)
    with job_files(job) as files:
        folder = files.folder(parts)
        try:
            text = match.casefold()
            names = [
                name
                for name in names_in(folder)
                if not text or text in name_shown(name).casefold() or path_shown((*parts, name)) in folders
            ]
            if len(names) > NAMES_SORTED:
                return _part(folder, parts, most, "", names)["results"], len(names) - most
            found = [((*parts, name), status) for name in names if (status := status_of(folder, name))]
        finally:
            os.close(folder)
    found.sort(key=lambda one: (not stat.S_ISDIR(one[1].st_mode), -one[1].st_mtime, one[0]))
    return [file_row(*one) for one in found[:most]], max(0, len(found) - most)


def names_in(folder: int) -> Iterator[str]:
    """Yield the names in an open folder, in no order."""
    with os.scandir(folder) as entries:
        for seen, entry in enumerate(entries, start=1):
            yield entry.name
            if seen >= NAMES_LISTED:
                return


def status_of(folder: int, name: str) -> os.stat_result | None:
    """Return what a name is; None where it went away meanwhile."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        return None


def kind_of(status: os.stat_result) -> str:
    """Return one of KINDS."""
    if stat.S_ISREG(status.st_mode):
        return "file"
    if stat.S_ISDIR(status.st_mode):
        return "folder"
    return "link" if stat.S_ISLNK(status.st_mode) else "other"


def file_row(parts: tuple[str, ...], status: os.stat_result) -> FileRow:
    """Return one name as plain JSON data."""
    return {
        "name": name_shown(parts[-1]),
        "path": path_shown(parts),
        "kind": kind_of(status),
        "size_bytes": status.st_size if stat.S_ISREG(status.st_mode) else None,
        "changed_at": iso(changed_at(status)),
    }


def changed_at(status: os.stat_result) -> datetime:
    """Return when something was written last; a job may have set any time, also one that no calendar has."""
    seconds = min(max(status.st_mtime, 0.0), 253_402_300_799.0)
    return datetime.fromtimestamp(seconds, UTC)
