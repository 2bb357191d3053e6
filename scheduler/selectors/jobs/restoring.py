"""Whether the cancel of a job can be taken back, and what the job is then."""

from datetime import datetime

from scheduler.core.model.lifecycle import JobState
from scheduler.models import Configuration, Event, Job

UNDO_S = 600.0
_REASONS = ("cancel", "dependency")  # what it waits for may have been cancelled by a slip of the hand, too
WAITED = (JobState.QUEUED, JobState.SUSPENDED)


def restored_state(job: Job, at: datetime) -> JobState | None:
    """Return what a cancelled job is again when its cancel is taken back; None when that can no longer be done.

    It can for UNDO_S after the cancel of a job that waited: it held nothing, so nothing is lost. Jobs of an experiment
    are excluded, since the search ended them.
    """
    if job.state != JobState.CANCELLED or job.ended_at is None:
        return None
    if not 0.0 <= (at - job.ended_at).total_seconds() <= UNDO_S or Configuration.objects.filter(job=job).exists():
        return None
    moved = Event.objects.filter(job=job, number=job.event_count, kind="job_state", reason__in=_REASONS)
    before = moved.values_list("old_state", flat=True).first()
    return JobState(before) if before in WAITED else None
