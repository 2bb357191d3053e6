"""The card of the admin page about the errors of recent start estimates."""

from dataclasses import dataclass
from datetime import datetime

from frontend.components.formats import counted, duration, percent
from scheduler.core.operations.start_calibration import LATE_FRAC, LEAST_RATIOS
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
    title = "Starts were told with a median only" if covered is None else f"{percent(covered)} started by their p90"
    rows = [("Off by, median", duration(found["median_error_s"])), ("Should start by p90", percent(1 - LATE_FRAC))]
    if covered is not None:
        rows.append(("As simulated alone", f"{percent(found['covered_simulated_frac'])} by their p90"))
        rows.append(("Told none before 7 days", percent(found["untold_frac"])))
    waits = counted(found["ratios"], "wait")
    enough = found["ratios"] >= LEAST_RATIOS
    rows.append(
        ("p90 is stretched by", f"the last {waits}" if enough else f"nothing yet, {waits} of {LEAST_RATIOS} ended")
    )
    return StartsView(
        title=title,
        sub=f"First estimates of {counted(found['starts'], 'job')} that waited and started in the last 7 days",
        rows=rows,
    )
