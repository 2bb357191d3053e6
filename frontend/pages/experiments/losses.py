"""Where the losses of a sweep come from, what has none, and how its jobs tell theirs."""

from collections.abc import Sequence
from dataclasses import dataclass

from frontend.components.formats import counted, number
from scheduler.selectors.files.losses import HOW
from scheduler.selectors.jobs.many.arrays import ArrayJobRow
from scheduler.selectors.jobs.many.experiment_rows import ConfigurationRow

LINES = """\
from clusterweb_runtime import Run
run = Run()
for step in run.steps(): run.report(loss=train_one_step())"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LossesWords:
    """What a page says beside the losses.

    Attributes:
        count: ``3 with a loss``.
        missing: In place of a loss that is not there.
        sentence: Which were read from files, and which files are not read yet; empty for nothing.
        how: Where no job has a loss, how one tells it; empty otherwise.
        lines: The code of it.
    """

    count: str
    missing: str
    sentence: str
    how: str
    lines: str = LINES


def losses_words(
    rows: Sequence[ConfigurationRow] | Sequence[ArrayJobRow], *, unread: int, is_over: bool
) -> LossesWords:
    """Return the words for the jobs of a sweep.

    Args:
        unread: Of so many jobs the files are not all read.
        is_over: Whether no job of it can report any more.
    """
    told = sum(one["loss"] is not None for one in rows)
    sources = sorted({one["loss_source"] for one in rows if one["loss_source"]})
    read = sum(bool(one["loss_source"]) for one in rows)
    whose = "the job's files" if read == 1 else "the jobs' files"
    parts = [f"{counted(read, 'loss', 'losses')} read from {whose}: {_few(sources)}."] if read else []
    if unread:
        parts.append(f"The files of {counted(unread, 'job')} are not all read yet.")
    yet = "" if is_over else " yet"
    return LossesWords(
        count=f"{number(told)} with a loss" if told else f"none with a loss{yet}",
        missing=f"none{yet}",
        sentence=" ".join(parts),
        how="" if told or unread else f"A loss stands here {'if' if is_over else 'once'} a job {HOW}.",
    )


def _few(sources: Sequence[str]) -> str:
    more = f" and {counted(len(sources) - 2, 'other')}" if len(sources) > 2 else ""
    return ", ".join(sources[:2]) + more
