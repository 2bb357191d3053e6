"""Calibrate p90 start estimates from past errors: count late starts, and stretch the next estimates accordingly.

The arithmetic is in ``scheduler.core.operations.start_calibration``.
"""

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction

from scheduler.core.operations.start_calibration import level_next, stretch
from scheduler.models import Cluster, StartEstimate
from scheduler.selectors.jobs.estimates import ratios_lately
from scheduler.services.cluster.settings import cluster_row


def stretch_now() -> float:
    """Return the factor from the simulated p90 to the one that is shown; +inf where no bound would hold at present."""
    return stretch(ratios_lately(), cluster_row().late_level)


def outcomes_count(rows: Iterable[StartEstimate], at: datetime) -> None:
    """Adjust the level by each wait whose outcome is now known: whether the job started by its p90.

    Args:
        rows: Stored estimates. A wait that goes on is late once its p90 has passed.
        at: Now.
    """
    known = sorted(outcome for row in rows if (outcome := _outcome(row, at)))
    if not known:
        return
    with transaction.atomic():
        level = Cluster.objects.select_for_update().get(pk=1).late_level
        for _, pk, in_time in known:
            # Another worker may have counted it meanwhile.
            if StartEstimate.objects.filter(pk=pk, in_time=None).update(in_time=in_time):
                level = level_next(level, late=not in_time)
        Cluster.objects.filter(pk=1).update(late_level=level)


def _outcome(row: StartEstimate, at: datetime) -> tuple[datetime, int, bool] | None:
    """Return when the outcome was known, the estimate's id, and whether it held; None while it is unknown."""
    by_at, started_at = row.first_p90_at, row.started_at
    left = row.closed_at is not None and started_at is None
    if row.in_time is not None or row.first_simulated_p90_at is None or left:
        return None
    if by_at is not None and by_at < (started_at or at):
        return by_at, row.pk, False
    return (started_at, row.pk, True) if started_at else None
