"""Adds up how busy held GPUs were, and writes it to the hourly use of each user."""

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime

from django.db import transaction
from django.db.models import F, Sum

from scheduler.models import Job, Lease, UsageHour

FLUSH_EVERY_S = 30.0
# A report counts for the time since the one before, at most this long, seconds.
MOST_S = 10


@dataclass(slots=True)
class Use:
    """GPU use since it was last written.

    Attributes:
        seconds: By job: measured seconds, and the same times the mean utilization of its GPUs.
        told: By job: second of the wall clock of the last report.
        written_s: When it was last written, seconds of the monotonic clock.
    """

    seconds: dict[str, tuple[float, float]] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    written_s: float = 0.0

    def take(self, job_id: str, *, second: int, gpu_frac: float | None) -> None:
        """Count one report of a job."""
        if gpu_frac is None:
            return
        spoken_s = min(MOST_S, max(0, second - self.told.get(job_id, second - 1)))
        self.told[job_id] = second
        measured_s, busy_s = self.seconds.get(job_id, (0.0, 0.0))
        self.seconds[job_id] = (measured_s + spoken_s, busy_s + spoken_s * gpu_frac)

    def flush(self, *, at: datetime, now_s: float) -> None:
        """Add it to the hour of ``at`` if FLUSH_EVERY_S have passed."""
        if now_s - self.written_s < FLUSH_EVERY_S or not self.seconds:
            return
        self.written_s = now_s
        seconds, self.seconds = self.seconds, {}
        self.told = {job_id: second for job_id, second in self.told.items() if job_id in seconds}
        spent: dict[tuple[int, int], tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        for job_id, queue_id, owner_id, num_gpus in _held(list(seconds)):
            (measured_s, busy_s), before = seconds[job_id], spent[queue_id, owner_id]
            spent[queue_id, owner_id] = (before[0] + num_gpus * measured_s, before[1] + num_gpus * busy_s)
        hour = at.replace(minute=0, second=0, microsecond=0)
        with transaction.atomic():
            for (queue_id, user_id), (measured_gpu_s, busy_gpu_s) in sorted(spent.items()):
                row, _ = UsageHour.objects.get_or_create(hour=hour, queue_id=queue_id, user_id=user_id)
                UsageHour.objects.filter(pk=row.pk).update(
                    measured_gpu_s=F("measured_gpu_s") + measured_gpu_s, busy_gpu_s=F("busy_gpu_s") + busy_gpu_s
                )


def _held(job_ids: list[str]) -> list[tuple[str, int, int, int]]:
    """Return queue, owner and GPUs of jobs: GPUs held now, or asked for where a job holds none any more."""
    jobs = Job.objects.filter(pk__in=job_ids).values_list("pk", "queue_id", "owner_id", "num_gpus")
    leases = Lease.objects.filter(attempt__job_id__in=job_ids, closed_at=None, num_gpus__gte=1)
    held = dict(leases.values_list("attempt__job_id").annotate(held=Sum("num_gpus")).order_by())
    return [(pk, queue_id, owner_id, held.get(pk, num_gpus)) for pk, queue_id, owner_id, num_gpus in jobs]
