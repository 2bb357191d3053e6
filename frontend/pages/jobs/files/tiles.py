"""The figures above the tree: what there is, until when it is kept, what the queue stores, which scalars are drawn."""

from dataclasses import dataclass

from frontend.components.formats import NBSP, clock, counted, data_size, number
from frontend.pages.jobs.subject import Subject
from scheduler.selectors.directories import directory_kept_until, kept_for, queue_keeps_until
from scheduler.selectors.files.names import name_shown
from scheduler.selectors.files.scalars import EVENTS
from scheduler.selectors.files.survey import Survey
from scheduler.selectors.queues.stored import queue_stored

WARN_DAYS = 7
# A folder that holds so much of all bytes is the finding.
MOST_OF_ALL = 0.5
TAGS_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class FileTile:
    """One figure.

    Attributes:
        percent: How far a bar is filled; empty for no bar.
        href, action: What the reader may do about it; empty for nothing.
    """

    label: str
    value: str
    unit: str = ""
    detail: str = ""
    tone: str = ""
    percent: str = ""
    href: str = ""
    action: str = ""


def title_of(survey: Survey) -> str:
    """Return the finding about the files."""
    everything = survey.all
    total = f"{'' if survey.is_whole else 'at least '}{data_size(everything.num_bytes)}"
    largest = max(
        ((one.num_bytes, parts) for parts, one in survey.folders.items() if len(parts) == 1), default=(0, ("",))
    )
    if survey.is_whole and everything.num_bytes and largest[0] >= MOST_OF_ALL * everything.num_bytes:
        share = 100 * largest[0] // everything.num_bytes
        return f"{name_shown(largest[1][0])} holds {share}{NBSP}% of the {total}"
    return f"{files_counted(survey)}, {total}"


def files_counted(survey: Survey) -> str:
    """Return ``41 files``, or that there are more than were looked at."""
    return f"{'' if survey.is_whole else 'more than '}{counted(survey.all.files, 'file')}"


def tiles_of(subject: Subject, survey: Survey) -> list[FileTile]:
    """Return the figures."""
    return [_found(subject, survey), _kept(subject), _stored(subject), *_drawn(subject)]


def _found(subject: Subject, survey: Survey) -> FileTile:
    now = clock(subject.at, subject.at, subject.zone)
    detail = f"as of {now}, sizes may grow" if subject.is_holding else "$CLUSTERWEB_JOB_DIR at the end of the job"
    if not subject.is_holding and not subject.is_over:
        detail = "$CLUSTERWEB_JOB_DIR, the same at the next start"
    return FileTile(
        label="Files in its directory",
        value=f"{'' if survey.is_whole else '> '}{number(survey.all.files)}",
        unit=f"{'file' if survey.all.files == 1 else 'files'}, {data_size(survey.all.num_bytes)}",
        detail=detail,
    )


def _kept(subject: Subject) -> FileTile:
    queue, until = subject.job.queue, directory_kept_until(subject.job)
    days = counted(kept_for(queue).days, "day")
    if until is None:
        return FileTile(label="Kept until", value="it ends", detail=f"and {days} after that")
    left, day = (until - subject.at).days, until.astimezone(subject.zone)
    year = f" {day.year}" if day.year != subject.at.year else ""
    is_longer = until != queue_keeps_until(subject.job)
    may = "keep" in subject.detail["actions"]
    return FileTile(
        label="Kept until",
        value=f"{day:%a} {day.day} {day:%b}{year}",
        detail=f"longer than the {days} of {queue.name}" if is_longer else f"{days} after its end, then deleted",
        tone="warn" if left < WARN_DAYS else "",
        href=f"{subject.path}/keep" if may else "",
        action="Change" if is_longer else "Keep longer",
    )


def _stored(subject: Subject) -> FileTile:
    queue = subject.job.queue
    stored = queue_stored(queue)
    own = subject.detail["directory"]
    detail = f"this job {data_size(own['size_bytes'])} with its HOME" if own else "this job nothing yet"
    if stored.free_from is not None:
        freed = clock(stored.free_from, subject.at, subject.zone)
        detail = f"over its limit; new files are kept, nothing is deleted before {freed}"
    most = stored.most_bytes
    return FileTile(
        label=f"{queue.name} stores",
        value=data_size(stored.num_bytes),
        unit=f"of {data_size(most)}" if most else "without a limit",
        detail=detail,
        tone="warn" if stored.free_from else "",
        percent=f"{min(100.0, 100 * stored.num_bytes / most):.2f}" if most else "",
    )


def _drawn(subject: Subject) -> list[FileTile]:
    """Return the figure of the scalars in its files; none where there are none."""
    curves = subject.scalars.curves
    boards = [curve for curve in curves if EVENTS.search(curve.file.rpartition("/")[2])]
    tags = list(dict.fromkeys(curve.tag for curve in boards or curves))
    if not tags:
        return []
    folder = (boards or curves)[0].run.partition("/")[0]
    more = f" and {number(len(tags) - TAGS_NAMED)} more" if len(tags) > TAGS_NAMED else ""
    return [
        FileTile(
            label=f"{'TensorBoard' if boards else 'Scalars'} found in {f'{folder}/' if folder else 'its directory'}",
            value=number(len(tags)),
            unit=f"{'scalar' if len(tags) == 1 else 'scalars'} drawn on Metrics",
            detail=f"{', '.join(tags[:TAGS_NAMED])}{more}",
            href=f"{subject.path}/metrics",
            action="Open",
        )
    ]
