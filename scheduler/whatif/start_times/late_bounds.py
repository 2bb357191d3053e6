"""What became of the times by which nine in ten jobs were to start, and how far the next are stretched for it."""

from collections.abc import Iterable
from datetime import datetime

from django.db import transaction

from scheduler.core.operations.start_calibration import level_next, stretch
from scheduler.models import Cluster, StartEstimate
from scheduler.selectors.jobs.estimates import ratios_lately
from scheduler.services.cluster.settings import cluster_row


def stretch_now() -> float:
    """Return the factor from the simulated time to what is said; +inf where nothing holds at present."""
    return stretch(ratios_lately(), cluster_row().late_level)


def outcomes_count(rows: Iterable[StartEstimate], at: datetime) -> None:
    """Move the level by each wait of which it is known now, for the first time, whether it ended by what was said.

    Args:
        rows: Estimates as they are stored. A wait that goes on is late once its time has passed.
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
    """Return when it was known, of which estimate, and whether it held; None where nothing is known yet."""
    by_at, started_at = row.first_p90_at, row.started_at
    left = row.closed_at is not None and started_at is None
    if row.in_time is not None or row.first_simulated_p90_at is None or left:
        return None
    if by_at is not None and by_at < (started_at or at):
        return by_at, row.pk, False
    return (started_at, row.pk, True) if started_at else None
