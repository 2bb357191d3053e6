"""The rows of the tree: folders first, then the newest; an open folder is followed by what is in it."""

from collections import Counter
from collections.abc import Container, Iterator
from dataclasses import dataclass
from datetime import datetime

from frontend.components.formats import counted, number
from frontend.components.times import as_time
from frontend.pages.jobs.files.view import View
from scheduler.core.model.errors import NotFound
from scheduler.models import Job
from scheduler.selectors.files.listing import folder_newest
from scheduler.selectors.files.names import name_shown, path_shown
from scheduler.selectors.files.pictures import SUFFIXES
from scheduler.selectors.files.rows import FileRow
from scheduler.selectors.files.scalars import EVENTS
from scheduler.selectors.files.survey import Sum, Survey

ROWS_AT_FIRST = 200
ROWS_OF_ALL = 5_000
# Folders are open at first as long as all that is shown fits on a screen.
ROWS_OPEN = 14
ICONS = {"folder": "folder", "link": "link", "other": "ban"}


@dataclass(frozen=True, slots=True, kw_only=True)
class TreeRow:
    """One line of the tree.

    Attributes:
        level: 1 for what lies in the directory itself.
        href: Opens or closes a folder, shows a file, or shows the rest of a folder; empty for what is never opened.
        files: How many a download of it has; 0 for what is never downloaded, or was not counted.
        is_open: Of a folder; None for what is none.
        note: Beside the name.
        rest: How many are not shown; of the line that says so alone.
    """

    level: int
    name: str
    path: str
    icon: str
    href: str
    size_bytes: int | None = None
    at: datetime | None = None
    files: int = 0
    is_open: bool | None = None
    is_shown: bool = False
    download: str = ""
    note: str = ""
    rest: int = 0


def opened_at_first(job: Job, survey: Survey) -> list[str]:
    """Return the folders that are open when a page is opened: small ones, while all fits."""
    top, _ = _listed(job, "", most=ROWS_OPEN)
    room = ROWS_OPEN - len(top)
    opened = []
    for row in top:
        within = sum(1 for parts in (*survey.folders, *(seen.parts for seen in survey.files)) if _is_in(parts, row))
        if row["kind"] == "folder" and 0 < within <= room:
            opened.append(row["path"])
            room -= within
    return opened


def _is_in(parts: tuple[str, ...], folder: FileRow) -> bool:
    return bool(parts) and path_shown(parts[:-1]) == folder["path"]


def tree_rows(job: Job, survey: Survey, view: View, path: str = "", level: int = 1) -> Iterator[TreeRow]:
    """Yield the lines of a folder and of the open folders in it; with a match, those that have it in their names.

    A folder stays where a file below it has it, and says how many do.
    """
    matching = matching_files(survey, view.match)
    most = ROWS_OF_ALL if path and path == view.whole else ROWS_AT_FIRST
    found, rest = _listed(job, path, most=most, match=view.match, folders=matching)
    sums = {path_shown(parts): one for parts, one in survey.folders.items()}
    boards = {path_shown(seen.parts[:1]) for seen in survey.files if EVENTS.search(seen.parts[-1])} if not path else ()
    for row in found:
        within = sums.get(row["path"]) if row["kind"] == "folder" else None
        is_open = row["kind"] == "folder" and row["path"] in (view.opened or ())
        yield TreeRow(
            level=level,
            name=row["name"],
            path=row["path"],
            icon=_icon(row),
            href=_href(row, view),
            size_bytes=within.num_bytes if within else row["size_bytes"],
            at=as_time(row["changed_at"]),
            files=within.files if within else int(row["kind"] == "file"),
            is_open=is_open if row["kind"] == "folder" else None,
            is_shown=row["path"] in (view.shown or ()),
            download=_download(row, view),
            note=_note(row, within, matching if view.match else None, is_board=row["path"] in boards),
        )
        if is_open:
            yield from tree_rows(job, survey, view, row["path"], level + 1)
    if rest:
        yield TreeRow(level=level, name="", path=path, icon="", href=view.all_of(path), rest=rest)


def matching_files(survey: Survey, match: str) -> Counter[str]:
    """Return how many files below each folder have ``match`` in their names."""
    text, found = match.casefold(), Counter[str]()
    for seen in survey.files if text else ():
        if text in name_shown(seen.parts[-1]).casefold():
            found.update(path_shown(seen.parts[:depth]) for depth in range(1, len(seen.parts)))
    return found


def _note(row: FileRow, within: Sum | None, matching: Counter[str] | None, *, is_board: bool) -> str:
    if within is None:
        return "a link, not followed" if row["kind"] == "link" else ""
    files = f"{counted(within.files, 'file')}{', TensorBoard' if is_board else ''}"
    return files if matching is None else f"{number(matching[row['path']])} of {files}"


def _listed(
    job: Job, path: str, *, most: int, match: str = "", folders: Container[str] = ()
) -> tuple[list[FileRow], int]:
    try:
        return folder_newest(job, path, most=most, match=match, folders=folders)
    except NotFound:  # it went away since the list above it was made
        return [], 0


def _icon(row: FileRow) -> str:
    if row["kind"] != "file":
        return ICONS[row["kind"]]
    name = row["name"].lower()
    return "image" if name.endswith(SUFFIXES) else "file-text" if is_text_name(name) else "file"


def _href(row: FileRow, view: View) -> str:
    if row["kind"] == "folder":
        return view.toggled(row["path"])
    return view.showing(row["path"]) if row["kind"] == "file" else ""


def _download(row: FileRow, view: View) -> str:
    if row["kind"] == "folder":
        return view.archive(row["path"])
    return view.download(row["path"]) if row["kind"] == "file" else ""


def is_text_name(name: str) -> bool:
    """Return whether a file of this name is text, as far as names say."""
    return name.lower().endswith(
        (".json", ".jsonl", ".yaml", ".yml", ".txt", ".csv", ".tsv", ".log", ".md", ".py", ".sh", ".toml", ".ini")
    )
