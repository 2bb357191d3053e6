"""Metrics: everything measured of a job, over steps or time."""

from typing import TypedDict

from frontend.components.charts import Chart
from frontend.pages.jobs.charts.curves import all_curves
from frontend.pages.jobs.subject import Subject


class MetricsTab(TypedDict):
    """The variables of its template."""

    charts: list[Chart]


def context(subject: Subject) -> MetricsTab:
    """Return the variables of the template."""
    return {"charts": all_curves(subject)}
