"""Scalars that jobs wrote by TensorBoard, Lightning and the like: found by name, read on where the last look ended.

A look takes so much time and so many bytes at most, whatever a job has written; the next one goes on from there. What
was read is kept in the memory of this process, up to so many files and points, and forgotten when the file is another.
"""

import os
import re
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, field

from scheduler.core.model.errors import NotFound
from scheduler.core.model.lifecycle import TERMINAL
from scheduler.models import Job
from scheduler.selectors.files.metric_lines import LINE_BYTES, Lines
from scheduler.selectors.files.names import path_shown
from scheduler.selectors.files.opening import job_files
from scheduler.selectors.files.series import Series, Tags
from scheduler.selectors.files.survey import Seen, Survey

EVENTS = re.compile(r"\btfevents\b")
LINES = re.compile(r"(metrics.*|history|progress|scalars|log)\.(csv|jsonl|ndjson)", re.IGNORECASE)
MOST_FILES = 24
# One look, over all files of a job. Time is looked at after each piece, which takes a fifth of a second at most.
LOOK_BYTES = 16 * 1024 * 1024
LOOK_S = 0.4
PIECE_BYTES = 512 * 1024
FILES_KEPT, POINTS_KEPT = 500, 3_000_000


@dataclass(slots=True)
class _File:
    """What is known of one file: how far it was read, what was in it, and what is wrong with it.

    ``is_final`` says that its job has ended: a last line without its line end is whole then.
    """

    is_events: bool
    lines: Lines
    inode: int
    at: int = 0
    size: int = 0
    tags: Tags = field(default_factory=Tags)
    wrong: str = ""
    is_final: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """One series of one run.

    Attributes:
        run: The folder of its files.
        file: The path of the last of them.
        changed_s: When one of them was written last, in seconds since 1970.
    """

    run: str
    tag: str
    parts: list[Series]
    file: str
    changed_s: float

    @property
    def source(self) -> str:
        """Return where it stands: ``loss in metrics.csv``."""
        return f"{self.tag} in {self.file}"

    @property
    def last(self) -> tuple[float, float]:
        """Return the newest step and its value."""
        last = self.parts[-1].last
        assert last is not None  # a series without a value makes no curve
        return last


@dataclass(frozen=True, slots=True, kw_only=True)
class Scalars:
    """What is drawn.

    Attributes:
        files: How many files scalars were looked for in.
        folder: Of the first of them.
        curves: By tag, then by run.
        notes: Sentences about files that are damaged or not read to their end yet.
        is_whole: Whether all was read that there is now.
    """

    files: int
    folder: str
    curves: list[Curve]
    notes: list[str]
    is_whole: bool


class _Budget:
    """What one look may still take."""

    def __init__(self) -> None:
        self.num_bytes = LOOK_BYTES
        self._until_s = time.monotonic() + LOOK_S

    @property
    def is_spent(self) -> bool:
        return self.num_bytes <= 0 or time.monotonic() > self._until_s


_kept: OrderedDict[tuple[str, tuple[str, ...]], _File] = OrderedDict()
_one_at_a_time = threading.Lock()


def scalar_files(survey: Survey) -> list[Seen]:
    """Return the files that may have scalars, the newest first."""
    found = [seen for seen in survey.files if EVENTS.search(seen.parts[-1]) or LINES.fullmatch(seen.parts[-1])]
    return sorted(found, key=lambda seen: -seen.changed_s)


def scalars_of(job: Job, survey: Survey) -> Scalars:
    """Return the scalars of a job as far as they are read; reads on, up to LOOK_BYTES."""
    found = scalar_files(survey)
    chosen = sorted(found[:MOST_FILES], key=lambda seen: seen.parts)
    notes = [f"{len(found) - MOST_FILES} older files are not looked at."] if len(found) > MOST_FILES else []
    read: list[tuple[Seen, _File]] = []
    if not _one_at_a_time.acquire(timeout=LOOK_S):
        return Scalars(
            files=len(found), folder="", curves=[], notes=["Other files are being read. Look again."], is_whole=False
        )
    try:
        budget = _Budget()
        for seen in chosen:
            try:
                read.append((seen, _read_on(job, seen, budget)))
            except NotFound as missing:
                notes.append(str(missing))
        curves, is_whole = _curves(read), not budget.is_spent
    finally:
        _one_at_a_time.release()
    notes += [note for seen, state in read if (note := _note(seen, state))]
    folder = path_shown(chosen[0].parts[:-1]) if chosen else ""
    return Scalars(files=len(found), folder=folder, curves=curves, notes=notes, is_whole=is_whole)


def _curves(read: list[tuple[Seen, _File]]) -> list[Curve]:
    """Join files of one folder, such as those of one run that was preempted, in the order of their names.

    Returns copies: another look may read on while these are drawn.
    """
    joined: dict[tuple[str, str], list[tuple[Seen, Series]]] = {}
    for seen, state in read:
        for tag, series in state.tags.by_name.items():
            if series.seen:
                joined.setdefault((tag, path_shown(seen.parts[:-1])), []).append((seen, series.copy()))
    return [
        Curve(
            run=run,
            tag=tag,
            parts=[series for _, series in parts],
            file=path_shown(parts[-1][0].parts),
            changed_s=max(seen.changed_s for seen, _ in parts),
        )
        for (tag, run), parts in sorted(joined.items(), key=lambda one: one[0])
    ]


def _note(seen: Seen, state: _File) -> str:
    path = path_shown(seen.parts)
    if state.wrong:
        return f"{path} is damaged: {state.wrong}."
    if state.size - state.at > PIECE_BYTES:
        return f"{path} is read up to {state.at // 2**20} of {state.size // 2**20} MiB; the next look reads on."
    return f"{path} has more series than are drawn." if state.tags.left_out else ""


def _read_on(job: Job, seen: Seen, budget: _Budget) -> _File:
    """Read what is new in a file, and return what is known of it now. Raises NotFound."""
    with job_files(job) as files, files.file(seen.parts) as file:
        state = _known(job, seen, os.fstat(file.fileno()))
        take = _take_events if state.is_events else _take_lines
        while not state.wrong and not budget.is_spent:
            data = os.pread(file.fileno(), PIECE_BYTES, state.at)
            budget.num_bytes -= len(data)
            if not data or not take(data, state):
                break
    return state


def _known(job: Job, seen: Seen, about: os.stat_result) -> _File:
    """Return what is known of a file; of another file of that name, or one that was cut, nothing is."""
    key = (job.pk, seen.parts)
    state = _kept.get(key)
    if state is None or state.inode != about.st_ino or about.st_size < state.at:
        name = seen.parts[-1]
        lines = Lines(is_csv=name.lower().endswith(".csv"))
        state = _kept[key] = _File(is_events=EVENTS.search(name) is not None, lines=lines, inode=about.st_ino)
    _kept.move_to_end(key)
    while len(_kept) > 1 and (len(_kept) > FILES_KEPT or _points_kept() > POINTS_KEPT):
        _kept.popitem(last=False)
    state.size, state.is_final = about.st_size, job.state in TERMINAL
    return state


def _points_kept() -> int:
    return sum(len(series.steps) for state in _kept.values() for series in state.tags.by_name.values())


def _take_events(data: bytes, state: _File) -> bool:
    """Take the whole records of a piece; return whether there may be more."""
    from scheduler.selectors.files.event_records import BrokenRecord, records, take_event  # for few jobs alone

    begin = state.at
    try:
        for body, size in records(data):
            if state.at + size > state.size:
                break  # it is being written
            if body:
                take_event(body, state.tags)
            state.at += size
    except BrokenRecord:
        state.wrong = f"the record at byte {state.at:,} has a wrong checksum; what comes before is drawn"
    return state.at > begin


def _take_lines(data: bytes, state: _File) -> bool:
    """Take the whole lines of a piece; return whether there may be more."""
    *lines, rest = data.split(b"\n")
    if len(rest) > LINE_BYTES:
        lines.append(rest)
    for line in lines:
        if len(line) > LINE_BYTES or not state.lines.take(line, state.tags):
            state.wrong = f"the line at byte {state.at:,} cannot be read; what comes before is drawn"
            return False
        state.at += len(line) + 1
    is_at_end = state.at + len(rest) >= state.size
    if state.is_final and is_at_end and len(rest) <= LINE_BYTES and state.lines.take(rest, state.tags):
        state.at += len(rest)
    return bool(lines)
