"""What the directories of a queue's jobs take, against what the queue keeps."""

from dataclasses import dataclass
from datetime import datetime

from django.db.models import QuerySet, Sum

from scheduler.models import Job, Queue
from scheduler.models.job import ENDED
from scheduler.selectors.directories import KEPT_AT_LEAST


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored:
    """Bytes in the directories of a queue, those that are being removed left out.

    Attributes:
        most_bytes: None for no limit.
        free_from: When the first directory may go because of the limit; None when none has to.
    """

    num_bytes: int
    most_bytes: int | None
    free_from: datetime | None


def kept_directories(queue: Queue) -> QuerySet[Job]:
    """Return the jobs of a queue whose directories are there to stay for now."""
    kept = Job.objects.filter(queue=queue, directory_bytes__isnull=False, directory_removed_at=None)
    return kept.filter(directory_removal_at=None)


def queue_stored(queue: Queue) -> Stored:
    """Return what the jobs of a queue store."""
    kept = kept_directories(queue)
    num_bytes = kept.aggregate(sum=Sum("directory_bytes"))["sum"] or 0
    most, free_from = queue.directories_most_bytes, None
    if most is not None and num_bytes > most:
        oldest = kept.filter(state__in=ENDED).order_by("ended_at").values_list("ended_at", flat=True).first()
        free_from = oldest and oldest + KEPT_AT_LEAST
    return Stored(num_bytes=num_bytes, most_bytes=most, free_from=free_from)
