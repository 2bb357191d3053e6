"""Estimates of starts over a window of Philly that the real live system lives through.

The estimator is the product's own; it knows neither what will be submitted nor how long half of the jobs are. It is
asked after each round in which somebody waits who was told nothing yet: what counts is what a person hears first.
"""

from dataclasses import dataclass

from scheduler.core.lifecycle import JobState
from scheduler.models import Job, StartEstimate
from scheduler.whatif.estimates import Estimator, estimates_close
from tests.lived import Lived, workload


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What became of the estimates.

    Attributes:
        jobs: Submitted.
        starts: Starts of jobs that had an estimate with a p90 before.
        covered: Those that started no later than their first p90.
        below_p50: Those that started no later than their first p50.
        errors_s: Sizes of start minus first p50, ascending.
        waits_s: From the first estimate to the start, ascending.
        promised_s: From the first estimate to its p90, ascending.
        unknown: Waits for which no p90 was known when they ended.
    """

    jobs: int
    starts: int
    covered: int
    below_p50: int
    errors_s: list[float]
    waits_s: list[float]
    promised_s: list[float]
    unknown: int


def estimates_replayed(*, window: str, policy: str) -> Found:
    """Return how good the first estimates of all starts were; needs an empty database.

    Args:
        window: Part of the month, as ``simulate --window`` takes it.
        policy: What decides.
    """
    lived = Lived(workload(window), policy=policy)
    estimator = Estimator(lived.world.ports)

    def after_round() -> None:
        waiting = Job.objects.filter(state=JobState.QUEUED)
        told = StartEstimate.objects.filter(closed_at=None, first_p90_at__isnull=False).values("job_id")
        if waiting.exclude(pk__in=told).exists():
            estimator.tick()
        else:
            estimates_close(lived.world.clock.now())

    lived.live(after_round)
    return _found(len(lived.jobs))


def _found(jobs: int) -> Found:
    started = StartEstimate.objects.filter(started_at__isnull=False)
    columns = ("first_made_at", "first_p50_at", "first_p90_at", "started_at")
    rows = started.filter(first_p90_at__isnull=False).values_list(*columns)
    times = [
        (made_at, p50_at, p90_at, at) for made_at, p50_at, p90_at, at in rows if made_at and p50_at and p90_at and at
    ]
    return Found(
        jobs=jobs,
        starts=len(times),
        covered=sum(at <= p90_at for _, _, p90_at, at in times),
        below_p50=sum(at <= p50_at for _, p50_at, _, at in times),
        errors_s=sorted(abs((at - p50_at).total_seconds()) for _, p50_at, _, at in times),
        waits_s=sorted((at - made_at).total_seconds() for made_at, _, _, at in times),
        promised_s=sorted((p90_at - made_at).total_seconds() for made_at, _, p90_at, _ in times),
        unknown=started.filter(first_p90_at__isnull=True).count(),
    )
