"""Adds up how busy held GPUs were, and writes it to the hourly use of each user.

Measured never exceeds allocated: only the time between two reports of one attempt counts, with the GPUs that its leases
gave it in that time.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime

from django.db import transaction
from django.db.models import F

from scheduler.models import Attempt, Lease, UsageHour

FLUSH_EVERY_S = 30.0
# A report counts for the time since the one before, at most this long, seconds.
MOST_S = 10.0
HOUR_S = 3_600.0


@dataclass(slots=True, kw_only=True)
class Span:
    """What was measured of one attempt within one hour.

    Attributes:
        begin_s: When the first measured interval began, seconds of the wall clock.
        end_s: When the last one ended.
        measured_s: Seconds measured between the two.
        busy_s: The same times the mean utilization of its GPUs.
    """

    begin_s: float
    end_s: float
    measured_s: float = 0.0
    busy_s: float = 0.0

    def add(self, begin_s: float, end_s: float, *, gpu_frac: float) -> None:
        """Count one interval."""
        self.begin_s, self.end_s = min(self.begin_s, begin_s), max(self.end_s, end_s)
        self.measured_s += end_s - begin_s
        self.busy_s += (end_s - begin_s) * gpu_frac


@dataclass(slots=True)
class Use:
    """GPU use since it was last written.

    Attributes:
        spans: By attempt and whole hour of the wall clock.
        told_s: By attempt: when it was last reported since then, seconds of the wall clock.
        told_before_s: The same of the time between the last two writes: a longer silence is the end of an attempt.
        written_s: When it was last written, seconds of the monotonic clock.
    """

    spans: dict[tuple[str, int], Span] = field(default_factory=dict)
    told_s: dict[str, float] = field(default_factory=dict)
    told_before_s: dict[str, float] = field(default_factory=dict)
    written_s: float = 0.0

    def take(self, attempt_id: str, *, at_s: float, gpu_frac: float | None) -> None:
        """Count one report of an attempt; its first counts for no time."""
        if gpu_frac is None:
            return
        before_s = self.told_s.get(attempt_id, self.told_before_s.get(attempt_id, at_s))
        self.told_s[attempt_id] = at_s  # also where the clock was set back: what follows counts from there
        for hour, begin_s, end_s in _by_hour(max(before_s, at_s - MOST_S), at_s):
            span = self.spans.setdefault((attempt_id, hour), Span(begin_s=begin_s, end_s=end_s))
            span.add(begin_s, end_s, gpu_frac=gpu_frac)

    def flush(self, *, now_s: float) -> None:
        """Add it to the hours in which it was measured if FLUSH_EVERY_S have passed."""
        if now_s - self.written_s < FLUSH_EVERY_S or not self.told_s:
            return
        self.written_s = now_s
        spans, self.spans = self.spans, {}
        self.told_s, self.told_before_s = {}, self.told_s
        attempts = {attempt_id for attempt_id, _ in spans}
        leases = _leases(attempts)
        whose = {
            pk: (queue_id, user_id)
            for pk, queue_id, user_id in Attempt.objects.filter(pk__in=attempts).values_list(
                "pk", "job__queue_id", "job__owner_id"
            )
        }
        spent: dict[tuple[int, int, int], tuple[float, float]] = defaultdict(lambda: (0.0, 0.0))
        for (attempt_id, hour), span in spans.items():
            if attempt_id not in whose:  # removed meanwhile
                continue
            gpus = _mean_gpus(span, leases[attempt_id])
            key = (hour, *whose[attempt_id])
            measured_gpu_s, busy_gpu_s = spent[key]
            spent[key] = (measured_gpu_s + gpus * span.measured_s, busy_gpu_s + gpus * span.busy_s)
        with transaction.atomic():
            for (hour, queue_id, user_id), (measured_gpu_s, busy_gpu_s) in sorted(spent.items()):
                begin = datetime.fromtimestamp(hour * HOUR_S, tz=UTC)
                row, _ = UsageHour.objects.get_or_create(hour=begin, queue_id=queue_id, user_id=user_id)
                UsageHour.objects.filter(pk=row.pk).update(
                    measured_gpu_s=F("measured_gpu_s") + measured_gpu_s, busy_gpu_s=F("busy_gpu_s") + busy_gpu_s
                )


def _by_hour(begin_s: float, end_s: float) -> Iterator[tuple[int, float, float]]:
    """Yield the parts of an interval, each with the whole hour that it lies in."""
    while begin_s < end_s:
        hour = int(begin_s // HOUR_S)
        part_s = min(end_s, (hour + 1) * HOUR_S)
        yield hour, begin_s, part_s
        begin_s = part_s


LeaseTimes = list[tuple[int, float, float | None]]  # GPUs, opened, closed; None while open


def _leases(attempt_ids: Collection[str]) -> dict[str, LeaseTimes]:
    """Return the leases of each attempt that gave it GPUs."""
    found: dict[str, LeaseTimes] = defaultdict(list)
    leases = Lease.objects.filter(attempt_id__in=attempt_ids, num_gpus__gte=1)
    for attempt_id, gpus, opened, closed in leases.values_list("attempt_id", "num_gpus", "opened_at", "closed_at"):
        found[attempt_id].append((gpus, opened.timestamp(), closed.timestamp() if closed else None))
    return found


def _mean_gpus(span: Span, leases: LeaseTimes) -> float:
    """Return how many GPUs an attempt held in the mean from the begin of a span to its end."""
    gpu_s = sum(
        gpus * max(0.0, min(span.end_s, span.end_s if closed_s is None else closed_s) - max(span.begin_s, opened_s))
        for gpus, opened_s, closed_s in leases
    )
    return gpu_s / (span.end_s - span.begin_s)
