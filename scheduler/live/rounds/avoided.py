"""Reads which servers a job avoids because a machine failed under it there lately.

The rule that uses it is ``scheduler.core.round.avoided_servers``. A gang avoids every server it was on, since the
failing one is not known.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from scheduler.core.operations.failures import MACHINE, RetryRules
from scheduler.models import Lease

STAYS_OFF = timedelta(seconds=RetryRules().avoid_server_s)


def avoided_read(job_rows: Mapping[str, int], *, at: datetime) -> tuple[tuple[int, int], ...]:
    """Return pairs of job number and avoided server number; ``job_rows`` are the jobs of the round."""
    rows = Lease.objects.filter(attempt__failure__in=sorted(MACHINE), attempt__ended_at__gte=at - STAYS_OFF)
    pairs = rows.values_list("attempt__job_id", "attempt__job__number", "server__number")
    return tuple(sorted({(job, server) for pk, job, server in pairs if pk in job_rows}))
