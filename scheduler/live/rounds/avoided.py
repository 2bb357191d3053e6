"""Reads which servers jobs stay off, because a machine failed under them there lately.

Decides nothing else: what a round makes of it is in ``scheduler.core.round.avoided_servers``. A gang stays off all
servers that it was on, since nobody knows which of them it was.
"""

from collections.abc import Mapping
from datetime import datetime, timedelta

from scheduler.core.operations.failures import MACHINE, RetryRules
from scheduler.models import Lease

STAYS_OFF = timedelta(seconds=RetryRules().avoid_server_s)


def avoided_read(job_rows: Mapping[str, int], *, at: datetime) -> tuple[tuple[int, int], ...]:
    """Return the numbers of jobs and of the servers that each stays off; ``job_rows`` are the jobs of the round."""
    rows = Lease.objects.filter(attempt__failure__in=sorted(MACHINE), attempt__ended_at__gte=at - STAYS_OFF)
    pairs = rows.values_list("attempt__job_id", "attempt__job__number", "server__number")
    return tuple(sorted({(job, server) for pk, job, server in pairs if pk in job_rows}))
