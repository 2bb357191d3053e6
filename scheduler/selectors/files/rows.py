"""Rows of files: each field is named here once."""

from typing import Annotated, TypedDict

from scheduler.selectors.rows import Moment, one_of

KINDS = ("file", "folder", "link", "other")


class FileRow(TypedDict):
    """One name in a folder."""

    name: Annotated[str, "What cannot be shown is written as % and two digits for each byte."]
    path: Annotated[str, "From the job's directory on, as the other addresses take it."]
    kind: Annotated[str, one_of(KINDS), "link and other (a FIFO, a device) are never opened."]
    size_bytes: Annotated[int | None, "null for what is no file."]
    changed_at: Moment


class FolderRow(TypedDict):
    """A folder of a job, or a part of a large one."""

    path: Annotated[str, "From the job's directory on; empty for the directory itself."]
    results: list[FileRow]
    next: Annotated[str | None, "Pass it as `after` to read on; null at the end."]
    reason: Annotated[str, "Why there is nothing to read; empty when there is."]
