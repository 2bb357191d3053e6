"""Metrics: everything measured of a job, over steps or time, and the scalars that it wrote into files of its own."""

from typing import TypedDict

from frontend.components.charts import Chart
from frontend.pages.jobs.charts.curves import all_curves
from frontend.pages.jobs.charts.scalars import OwnCurves, own_curves
from frontend.pages.jobs.subject import Subject
from scheduler.selectors.jobs.log_links import RunLink


class MetricsTab(TypedDict):
    """The variables of its template."""

    charts: list[Chart]
    own: OwnCurves
    run_links: list[RunLink]


def context(subject: Subject) -> MetricsTab:
    """Return the variables of the template."""
    return {"charts": all_curves(subject), "own": own_curves(subject), "run_links": subject.run_links}
