"""What is asked before chosen files of an ended job are deleted: their names and bytes."""

from collections.abc import Sequence

from frontend.components.formats import counted, data_size
from frontend.pages.jobs.head import Action
from frontend.pages.jobs.subject import Subject
from scheduler.selectors.files.chosen import Chosen, files_chosen

NAMED = 5


def removal_asked(subject: Subject, paths: Sequence[str]) -> Action:
    """Return the question. Raises NotFound for a path that is not there."""
    chosen = files_chosen(subject.job, paths)
    names, count = chosen.shown, len(chosen.paths)
    more = f" and {counted(count - NAMED, 'more', 'more')}" if count > NAMED else ""
    size = f"{'' if chosen.is_whole else 'at least '}{data_size(chosen.num_bytes)}"
    return Action(
        key="discard",
        icon="trash-2",
        label="Delete files",
        title=f"Delete {_what(chosen)} of {subject.job.name}, {size}?",
        effect=f"{', '.join(names[:NAMED])}{more}: what is deleted is gone for good. All else of the job stays.",
        keep="Keep them",
        verb=f"Delete {size}",
        danger=True,
    )


def _what(chosen: Chosen) -> str:
    if chosen.files:
        return counted(chosen.files, "file")
    return "an empty folder" if len(chosen.paths) == 1 else f"{len(chosen.paths)} folders without files"
