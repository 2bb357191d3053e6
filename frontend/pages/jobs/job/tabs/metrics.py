"""Metrics: everything measured of a job, over steps or time."""

from frontend.pages.jobs.charts.curves import all_curves
from frontend.pages.jobs.subject import Subject


def context(subject: Subject) -> dict[str, object]:
    """Return the variables of the template."""
    return {"charts": all_curves(subject)}
