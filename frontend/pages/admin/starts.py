"""The card of the admin page about the errors of recent start estimates."""

from dataclasses import dataclass
from datetime import datetime

from frontend.components.formats import counted, duration, number, percent
from scheduler.core.operations.start_calibration import LATE_FRAC, LEAST_RATIOS, LEAST_STARTS
from scheduler.selectors.jobs.estimates import estimate_error


@dataclass(frozen=True, slots=True, kw_only=True)
class StartsView:
    """The card. ``rows`` are names and values; empty where no estimate could be checked."""

    title: str
    sub: str
    rows: list[tuple[str, str]]


def starts_view(at: datetime) -> StartsView:
    """Return the errors of first estimates of the last days."""
    found = estimate_error(at)
    if found is None:
        sub = "A job that waits gets one after each round. It is checked when the job starts, and counts for 7 days."
        return StartsView(title="No estimate of a start could be checked yet", sub=sub, rows=[])
    covered = found["covered_frac"]
    off, waits = duration(found["median_error_s"]), counted(found["ratios"], "wait")
    title = f"Half of the starts were off by {off} or more"
    rows = [("Median error", off)]
    if covered is not None:
        title = f"{percent(covered)} started by their p90; the aim is {percent(1 - LATE_FRAC)}"
        rows.append(("By p90 without correction", percent(found["covered_simulated_frac"])))
        rows.append(("Told no p90: later than 7 d", percent(found["untold_frac"])))
    if found["starts"] < LEAST_STARTS:
        title = "Too few starts to tell how far estimates are off"
    is_corrected = found["ratios"] >= LEAST_RATIOS
    missing = f"from {LEAST_RATIOS} ended waits on, {number(found['ratios'])} so far"
    rows.append(("p90 is corrected", f"by the last {waits}" if is_corrected else missing))
    return StartsView(
        title=title,
        sub=f"First estimates of {counted(found['starts'], 'job')} that waited and started in the last 7 days",
        rows=rows,
    )
