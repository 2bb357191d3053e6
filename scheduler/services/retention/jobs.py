"""Removes ended jobs with all that belongs to them, a chunk at a time, and keeps their sums.

Leases go together with adding their GPU-seconds to the hours of their queue and user, jobs together with adding
themselves to their day, each in one transaction: a sum over what is kept and what is gone is the same at any moment.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q

from scheduler.models import (
    Attempt,
    Configuration,
    Event,
    Experiment,
    Gang,
    GangMember,
    Job,
    JobDay,
    Lease,
    LeaseGpu,
    Measurement,
    StartEstimate,
    UsageHour,
)
from scheduler.services.retention.policy import Kept

HOUR = timedelta(hours=1)
JOBS_AT_ONCE = 100
EVENTS_A_CHUNK, LEASES_A_CHUNK, ATTEMPTS_A_CHUNK = 500, 200, 250

HourOf = tuple[datetime, int, int]  # hour, queue, user


def jobs_chunk_remove(kept: Kept, *, at: datetime) -> int:
    """Remove one chunk of what the oldest jobs beyond the policy have, or the jobs themselves; return its rows.

    A job of an experiment goes when the whole experiment is old enough.
    """
    since = at - timedelta(days=kept.days or 0)
    of_experiment = Q(configuration__experiment__ended_at=None) | Q(configuration__experiment__ended_at__gte=since)
    old = kept.old(at).exclude(Q(configuration__isnull=False) & of_experiment)
    oldest = list(old.values_list("pk", flat=True)[:JOBS_AT_ONCE])
    if not oldest:
        return _experiments_remove(since)
    with transaction.atomic():
        held = old.filter(pk__in=oldest).select_for_update(of=("self",))
        return _of_jobs_remove(list(held.values_list("pk", flat=True)))


def _of_jobs_remove(jobs: Sequence[str]) -> int:
    """Remove a chunk of what jobs have, or else the jobs themselves."""
    for part in (_events_remove, _leases_remove, _attempts_remove):
        gone = part(jobs)
        if gone:
            return gone
    return _jobs_remove(jobs)


def _events_remove(jobs: Sequence[str]) -> int:
    pks = list(Event.objects.filter(job__in=jobs).order_by().values_list("pk", flat=True)[:EVENTS_A_CHUNK])
    return Event.objects.filter(pk__in=pks).delete()[0] if pks else 0


def _leases_remove(jobs: Sequence[str]) -> int:
    leases = list(
        Lease.objects.filter(attempt__job__in=jobs)
        .order_by("pk")
        .values_list("pk", "num_gpus", "opened_at", "closed_at", "attempt__job__queue_id", "attempt__job__owner_id")[
            :LEASES_A_CHUNK
        ]
    )
    if not leases:
        return 0
    spent: dict[HourOf, float] = defaultdict(float)
    for _, num_gpus, opened_at, closed_at, queue_id, owner_id in leases:
        for hour, seconds in _by_hour(opened_at, closed_at or opened_at):
            spent[hour, queue_id, owner_id] += num_gpus * seconds
    _hours_add(spent)
    pks = [lease[0] for lease in leases]
    gone = LeaseGpu.objects.filter(lease__in=pks).delete()[0]
    return gone + Lease.objects.filter(pk__in=pks).delete()[0]


def _by_hour(since: datetime, until: datetime) -> Iterable[tuple[datetime, float]]:
    """Yield the hours of a range with the seconds of it that lie in each."""
    while since < until:
        hour = since.replace(minute=0, second=0, microsecond=0)
        end = min(until, hour + HOUR)
        yield hour, (end - since).total_seconds()
        since = end


def _hours_add(spent: dict[HourOf, float]) -> None:
    found = UsageHour.objects.filter(hour__in={hour for hour, _, _ in spent})
    known = {(row.hour, row.queue_id, row.user_id): row for row in found}
    changed = []
    for key, gpu_s in spent.items():
        if key in known:
            known[key].removed_gpu_s += gpu_s
            changed.append(known[key])
    UsageHour.objects.bulk_update(changed, ["removed_gpu_s"], batch_size=200)
    UsageHour.objects.bulk_create(
        [
            UsageHour(hour=key[0], queue_id=key[1], user_id=key[2], removed_gpu_s=gpu_s)
            for key, gpu_s in spent.items()
            if key not in known
        ],
        batch_size=200,
    )


def _attempts_remove(jobs: Sequence[str]) -> int:
    pks = list(Attempt.objects.filter(job__in=jobs).order_by().values_list("pk", flat=True)[:ATTEMPTS_A_CHUNK])
    if not pks:
        return 0
    gone = GangMember.objects.filter(gang__in=pks).delete()[0] + Gang.objects.filter(pk__in=pks).delete()[0]
    gone += Measurement.objects.filter(attempt__in=pks).delete()[0]
    return gone + Attempt.objects.filter(pk__in=pks).delete()[0]


def _jobs_remove(jobs: Sequence[str]) -> int:
    """Remove jobs that have nothing left, and add them to their days."""
    days: Counter[tuple[datetime, int, int, str]] = Counter()
    gpu_s: dict[tuple[datetime, int, int, str], float] = defaultdict(float)
    rows = Job.objects.filter(pk__in=jobs).values_list("ended_at", "queue_id", "owner_id", "state", "attained_gpu_s")
    for ended_at, queue_id, owner_id, state, attained_gpu_s in rows:
        assert ended_at is not None
        key = (ended_at.replace(hour=0, minute=0, second=0, microsecond=0), queue_id, owner_id, state)
        days[key] += 1
        gpu_s[key] += attained_gpu_s
    for key, count in sorted(days.items()):
        day, queue_id, owner_id, state = key
        row, _ = JobDay.objects.get_or_create(day=day, queue_id=queue_id, user_id=owner_id, state=state)
        JobDay.objects.filter(pk=row.pk).update(
            num_jobs=F("num_jobs") + count, attained_gpu_s=F("attained_gpu_s") + gpu_s[key]
        )
    gone = StartEstimate.objects.filter(job__in=jobs).delete()[0]
    gone += Configuration.objects.filter(job__in=jobs).delete()[0]
    return gone + Job.objects.filter(pk__in=jobs).delete()[0]


def _experiments_remove(since: datetime) -> int:
    """Remove experiments whose jobs are all gone."""
    empty = Experiment.objects.filter(ended_at__lt=since, configurations=None).order_by("pk")
    pks = list(empty.values_list("pk", flat=True)[:JOBS_AT_ONCE])
    return Experiment.objects.filter(pk__in=pks).delete()[0] if pks else 0
