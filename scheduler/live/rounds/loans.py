"""Keeps which jobs run on GPUs lent to them, for the next round to know.

Decides nothing: the core lends, and takes back.
"""

from scheduler.core.model.plan import Plan
from scheduler.live.rounds.snapshot import LiveSnapshot
from scheduler.models import Attempt


def loans_record(live: LiveSnapshot, plan: Plan) -> None:
    """Write on the open attempts of the round's jobs whether they live on a loan; call it in its transaction."""
    before = {row for row, is_lent in enumerate(live.tables.jobs.lent.tolist()) if is_lent}
    for rows, is_lent in ((plan.lent - before, True), (before - plan.lent, False)):
        if rows:
            jobs = [live.job_pks[row] for row in sorted(rows)]
            Attempt.objects.filter(job_id__in=jobs, ended_at=None).update(is_lent=is_lent)
