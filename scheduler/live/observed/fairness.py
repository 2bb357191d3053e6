"""Records an event when a queue fares far worse than on an equal share, and when that is over."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Q

from scheduler.core.model.lifecycle import JobState
from scheduler.live.steps import NOT_DUE, for_each
from scheduler.models import Event, Job, Queue
from scheduler.notify import touch_queue
from scheduler.selectors.cluster.fairness import FAIR, UNFAIR, mean_rho_by_queue

EVERY_S = 60.0
LEAST_JOBS = 3  # one job alone says little about a queue
# A job that waited half a minute and has run for some seconds has a large rho although nothing is wrong, as all
# jobs do when a cluster starts. After ten minutes the wait for rounds and launches is small beside the run.
LEAST_AGE = timedelta(minutes=10)


@dataclass(slots=True)
class Fairness:
    """The check each ``every_s`` seconds; ``checked_s`` is the monotonic time of the last one."""

    every_s: float = EVERY_S
    checked_s: float = -1e18

    def check(self, *, at: datetime, now_s: float) -> object:
        """Compare the mean finish-time fairness of each queue with ``FAIRNESS_LIMIT``; 0 looks at nothing."""
        if not settings.FAIRNESS_LIMIT or now_s - self.checked_s < self.every_s:
            return NOT_DUE
        self.checked_s = now_s
        jobs = Job.objects.filter(Q(state=JobState.COMPLETED) | Q(submitted_at__lte=at - LEAST_AGE))
        means = mean_rho_by_queue(jobs, at, least_jobs=LEAST_JOBS)
        for_each(Queue.objects.order_by("pk"), lambda queue: _tell(queue, means.get(queue.name), at=at))
        return None


def _tell(queue: Queue, rho: float | None, *, at: datetime) -> None:
    told = Event.objects.filter(queue=queue, kind__in=(UNFAIR, FAIR)).order_by("-id").first()
    was_over, is_over = told is not None and told.kind == UNFAIR, rho is not None and rho > settings.FAIRNESS_LIMIT
    if was_over == is_over:
        return
    Event.objects.create(
        at=at,
        kind=UNFAIR if is_over else FAIR,
        actor="scheduler",
        queue=queue,
        reason="rho",
        data={"rho": None if rho is None else round(rho, 3), "limit": settings.FAIRNESS_LIMIT},
    )
    touch_queue(queue.pk)
