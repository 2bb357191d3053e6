"""Previews beside the tree: a picture, or the first lines of a text. What is neither says so and can be downloaded."""

import io
import os
from dataclasses import dataclass

from frontend.components.formats import clock, data_size, number
from frontend.pages.jobs.files.tree import is_text_name
from frontend.pages.jobs.files.view import View
from frontend.pages.jobs.subject import Subject
from scheduler.core.model.errors import NotFound
from scheduler.selectors.files import pictures
from scheduler.selectors.files.listing import changed_at
from scheduler.selectors.files.names import path_parts, path_shown
from scheduler.selectors.files.opening import job_files
from scheduler.selectors.files.pictures import picture_type
from scheduler.selectors.files.survey import Seen, Survey
from scheduler.selectors.files.text import MOST_BYTES, Text, text_read

LINES_AT_FIRST = 200
LINES_OF_WHOLE = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """One file.

    Attributes:
        sub: Size, kind and time.
        missing: Why there is nothing to see; a sentence.
        picture: Address of the picture; empty for none.
        earlier, later: Addresses of the pictures beside it in its folder; ``place`` says which of how many it is.
        whole: Address with all of the text; empty where all is there.
    """

    path: str
    name: str
    sub: str = ""
    missing: str = ""
    picture: str = ""
    place: str = ""
    earlier: str = ""
    later: str = ""
    text: Text | None = None
    numbers: str = ""
    whole: str = ""
    download: str = ""


def shown_at_first(survey: Survey) -> list[str]:
    """Return the newest picture and the newest text that are small enough to be shown."""
    kinds = (
        [seen for seen in survey.files if is_picture(seen) and seen.num_bytes <= pictures.MOST_BYTES],
        [seen for seen in survey.files if is_text_name(seen.parts[-1]) and 0 < seen.num_bytes <= MOST_BYTES],
    )
    return [path_shown(max(kind, key=lambda seen: seen.changed_s).parts) for kind in kinds if kind]


def is_picture(seen: Seen) -> bool:
    """Return whether a file is a picture, as far as its name says."""
    return seen.parts[-1].lower().endswith(pictures.SUFFIXES)


def preview_of(subject: Subject, survey: Survey, view: View, path: str) -> Preview:
    """Return the preview of a file, or what stands in its place."""
    name = path.rpartition("/")[2]
    try:
        parts = path_parts(path)
        with job_files(subject.job) as files, files.file(parts) as file:
            about = os.fstat(file.fileno())
            when = f"written {clock(changed_at(about), subject.at, subject.zone)}"
            size, download = data_size(about.st_size), view.download(path)
            if about.st_size <= pictures.MOST_BYTES and _is_picture_file(file, path):
                place, earlier, later = _places(survey, view, parts)
                return Preview(
                    path=path,
                    name=name,
                    sub=f"{size}, {when}",
                    picture=view.picture(path),
                    place=place,
                    earlier=earlier,
                    later=later,
                    download=download,
                )
            text = text_read(file, most_lines=LINES_OF_WHOLE if view.whole == path else LINES_AT_FIRST)
    except NotFound as missing:
        return Preview(path=path, name=name, missing=str(missing))
    if text is None:
        return Preview(path=path, name=name, sub=f"{size}, {when}", missing="No preview.", download=download)
    count = len(text.lines)
    is_all = text.all_lines is not None and count >= text.all_lines
    some = "" if is_all else f", first {number(count)}{f' of {number(text.all_lines)}' if text.all_lines else ''} lines"
    return Preview(
        path=path,
        name=name,
        sub=f"{size}, {when}, {'UTF-8' if text.is_utf8 else 'not all of it is UTF-8'}{some}",
        missing="" if count else "It is empty.",
        text=text,
        numbers="\n".join(str(line) for line in range(1, count + 1)),
        whole="" if is_all or view.whole == path else view.all_of(path),
        download=download,
    )


def _is_picture_file(file: io.FileIO, path: str) -> bool:
    try:
        return bool(picture_type(file, path))
    except NotFound:
        return False


def _places(survey: Survey, view: View, parts: tuple[str, ...]) -> tuple[str, str, str]:
    """Return which of the pictures of its folder a picture is, and the addresses of the earlier and the later one."""
    beside = sorted(
        (seen for seen in survey.files if seen.parts[:-1] == parts[:-1] and is_picture(seen)),
        key=lambda seen: (seen.changed_s, seen.parts),
    )
    at = next((index for index, seen in enumerate(beside) if seen.parts == parts), None)
    if at is None or len(beside) < 2:
        return "", "", ""
    path, names = path_shown(parts), [path_shown(seen.parts) for seen in beside]
    earlier = view.instead(path, names[at - 1]) if at else ""
    later = view.instead(path, names[at + 1]) if at + 1 < len(names) else ""
    return f"{at + 1} of {len(names)} pictures", earlier, later
