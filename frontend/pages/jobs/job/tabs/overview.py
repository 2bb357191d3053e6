"""Overview: how far it is, its curves, its course, what it holds, the end of its log."""

from typing import TypedDict

from frontend.components.charts import Chart
from frontend.pages.jobs.charts.curves import loss_of, rate_of
from frontend.pages.jobs.charts.progress import EndedWords, Tile, ends_words, outcome_of, tiles
from frontend.pages.jobs.charts.timeline import Timeline, timeline_of
from frontend.pages.jobs.job.enough import Enough, enough_of
from frontend.pages.jobs.job.plain import PlainJob, plain_of
from frontend.pages.jobs.job.preparing import Preparing, failed_log, preparing_of
from frontend.pages.jobs.job.receipts import Receipt, receipts_of
from frontend.pages.jobs.job.shares import Holdings, holdings_of
from frontend.pages.jobs.job.unknown import Unknown, unknown_of
from frontend.pages.jobs.job.unused import Unused, unused_of
from frontend.pages.jobs.logs.log_view import SHORT_LINES, LogPage, short_log
from frontend.pages.jobs.subject import Subject
from frontend.pages.jobs.waiting.why import ReasonBox, reason_context
from scheduler.core.model.lifecycle import JobState

# Of a job without curves the log is what tells most.
PLAIN_LINES = 24


class OverviewTab(TypedDict):
    """The variables of its template."""

    outcome: EndedWords | None
    preparing: Preparing | None
    failed_log: list[str]
    enough: Enough | None
    reason: ReasonBox
    unused: Unused | None
    unknown: Unknown | None
    plain: PlainJob | None
    is_bare: bool
    has_no_curves: bool
    frac: float | None
    frac_percent: str
    ends: tuple[str, str, str]
    small_tiles: list[Tile]
    loss_chart: Chart | None
    rate_chart: Chart
    timeline: Timeline
    receipts: list[Receipt]
    more_receipts: int
    holdings: Holdings
    log: LogPage
    log_lines: int


def context(subject: Subject) -> OverviewTab:
    """Return the variables of the template."""
    job, plain = subject.job, plain_of(subject)
    frac = min(1.0, job.step / job.total_steps) if job.step is not None and job.total_steps else None
    receipts, more_receipts = receipts_of(subject)
    loss, rate = None if plain else loss_of(subject), rate_of(subject)
    return {
        "outcome": outcome_of(subject),
        "preparing": preparing_of(subject),
        "failed_log": failed_log(subject),
        "enough": enough_of(subject),
        "reason": reason_context(subject),
        "unused": unused_of(subject),
        "unknown": unknown_of(subject),
        "plain": plain,
        # It ended before it ran: no progress, no curve, no log to show.
        "is_bare": subject.is_over and not subject.attempts,
        "frac": frac,
        "frac_percent": "" if frac is None else f"{frac * 100:.2f}",
        "ends": ends_words(subject),
        "small_tiles": tiles(subject),
        "loss_chart": loss,
        "rate_chart": rate,
        # Of a failed job no curve comes any more.
        "has_no_curves": subject.state is JobState.FAILED and (loss is None or not loss.figure) and not rate.figure,
        "timeline": timeline_of(subject),
        "receipts": receipts,
        "more_receipts": more_receipts,
        "holdings": holdings_of(subject),
        "log": short_log(subject, lines=SHORT_LINES if plain is None else PLAIN_LINES),
        "log_lines": SHORT_LINES if plain is None else PLAIN_LINES,
    }
