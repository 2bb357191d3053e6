"""Records which jobs run on lent GPUs, for the next round. The core decides about loans."""

from scheduler.core.model.plan import Plan
from scheduler.live.rounds.snapshot import LiveSnapshot
from scheduler.models import Attempt


def loans_record(live: LiveSnapshot, plan: Plan) -> None:
    """Write ``is_lent`` of the open attempts of the round's jobs; call it in the round's transaction."""
    before = {row for row, is_lent in enumerate(live.tables.jobs.lent.tolist()) if is_lent}
    for rows, is_lent in ((plan.lent - before, True), (before - plan.lent, False)):
        if rows:
            jobs = [live.job_pks[row] for row in sorted(rows)]
            Attempt.objects.filter(job_id__in=jobs, ended_at=None).update(is_lent=is_lent)
