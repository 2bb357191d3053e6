"""Carries out what users asked of jobs that hold GPUs: suspend or cancel. Services write ``Job.wanted``."""

from datetime import datetime

from django.db import transaction

from scheduler.core.model.errors import JobChanged
from scheduler.core.model.lifecycle import JobState
from scheduler.live.attempts.start_stop import attempt_stop
from scheduler.models import Attempt
from scheduler.models.job import AttemptState
from scheduler.services.jobs.state import job_transition


def wants_apply(*, at: datetime) -> set[str]:
    """Ask attempts of suspended or cancelled jobs to end; return the ids of servers to tell."""
    tell: set[str] = set()
    waiting = Attempt.objects.filter(wanted__in=["run", "park"], job__wanted__in=["suspend", "cancel"])
    for attempt in waiting.exclude(state=AttemptState.ENDED).select_related("job").order_by("id"):
        try:
            tell |= _ask(attempt, at=at)
        except JobChanged:
            continue  # the next round sees it as it is then
    return tell


@transaction.atomic
def _ask(attempt: Attempt, *, at: datetime) -> set[str]:
    job = attempt.job
    tell = set(attempt_stop(attempt_id=attempt.pk, wanted=job.wanted, at=at))
    if tell and job.wanted == "suspend" and job.state in (JobState.LAUNCHING, JobState.RUNNING, JobState.PARKED):
        job_transition(job=job, to=JobState.SUSPENDING, at=at, actor="scheduler", reason="suspend")
    return tell
