"""Files: what the job wrote into its directory, as a tree, with previews and downloads."""

from typing import TypedDict

from frontend.components.formats import data_size
from frontend.pages.jobs.files.previews import Preview, preview_of, shown_at_first
from frontend.pages.jobs.files.tiles import FileTile, tiles_of, title_of
from frontend.pages.jobs.files.tree import TreeRow, opened_at_first, tree_rows
from frontend.pages.jobs.files.view import MATCH_LENGTH, MOST_SHOWN, View
from frontend.pages.jobs.subject import Subject
from scheduler.selectors.files.archive import MOST_PATHS

# Of a zip that takes longer than a browser should be trusted with, the command is told as well.
LARGE_BYTES = 2**30
# What proxies take as an address, with some room for their own part.
ADDRESS_CHARS = 8_000


class FilesTab(TypedDict):
    """The variables of its template.

    Attributes:
        match, kept: What the names of listed files have in them, and all else of the address.
        is_chosen: Whether the address names a file: narrow screens show it alone.
        is_pair: Two previews of one kind stand side by side, to be compared.
    """

    reason: str
    title: str
    file_tiles: list[FileTile]
    rows: list[TreeRow]
    previews: list[Preview]
    is_chosen: bool
    is_pair: bool
    is_whole: bool
    may_delete: bool
    here: str
    match: str
    kept: list[tuple[str, str]]
    match_length: int
    back: str
    zip_href: str
    zip_size: str
    most_paths: int
    most_address: int
    command: str


def count(subject: Subject) -> int | None:
    """Return how many there are, where few enough to count them on every page."""
    survey, _ = subject.few_files
    return survey.all.files if survey.is_whole else None


def context(subject: Subject) -> FilesTab:
    """Return the variables of the template."""
    survey, reason = subject.files
    query = subject.request.GET
    view = View.of(query, api=f"/api/v1/jobs/{subject.job.pk}")
    view = view.settled(opened_at_first(subject.job, survey), shown_at_first(survey))
    previews = [preview_of(subject, survey, view, path) for path in view.shown or () if path]
    is_large = survey.all.num_bytes >= LARGE_BYTES
    return {
        "reason": reason,
        "title": title_of(survey),
        "file_tiles": tiles_of(subject, survey),
        "rows": list(tree_rows(subject.job, survey, view)),
        "previews": previews,
        "is_chosen": any(query.getlist("show")),
        "is_pair": len(previews) == MOST_SHOWN and len({bool(one.picture) for one in previews}) == 1,
        "is_whole": survey.is_whole,
        "may_delete": "discard" in subject.detail["actions"],
        "here": view.here,
        "match": view.match,
        "kept": view.kept,
        "match_length": MATCH_LENGTH,
        "back": view.without_previews(),
        "zip_href": view.archive(),
        "zip_size": f"{'' if survey.is_whole else 'more than '}{data_size(survey.all.num_bytes)}",
        "most_paths": MOST_PATHS,
        "most_address": ADDRESS_CHARS,
        "command": f"clusterweb files get {subject.key}" if is_large else "",
    }
