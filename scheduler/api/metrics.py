"""``/metrics`` for Prometheus: read from the database at each scrape, so that every web process says the same.

No label names a job or a user. Open to this machine (a scraper beside us), else to admins' tokens.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from typing import Any

from django.db.models import Count, DurationField, ExpressionWrapper, F, Q, QuerySet, Sum
from django.db.models.expressions import CombinedExpression
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from rest_framework.request import Request

from scheduler.api.health import version_text
from scheduler.api.permissions import ADMIN_OR_LOCAL
from scheduler.api.renderers import PlainText
from scheduler.api.view import ApiView
from scheduler.core.lifecycle import JobState
from scheduler.models import Attempt, Cluster, Job, Lease, Queue, Round, Server
from scheduler.ports import live_ports
from scheduler.selectors.overview import cluster_now

Family = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily
WAIT_BUCKETS_S = (1, 5, 15, 60, 300, 900, 3_600, 14_400, 86_400)
COMPLETION_BUCKETS_S = (60, 300, 900, 3_600, 14_400, 86_400, 604_800)
ROUND_BUCKETS_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


def _gauge(name: str, text: str, labels: list[str], rows: Iterable[tuple[list[str], float]]) -> GaugeMetricFamily:
    family = GaugeMetricFamily(f"clusterweb_{name}", text, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def _counter(name: str, text: str, labels: list[str], rows: Iterable[tuple[list[str], float]]) -> CounterMetricFamily:
    family = CounterMetricFamily(f"clusterweb_{name}", text, labels=labels)
    for values, value in rows:
        family.add_metric(values, value)
    return family


def _histogram(
    name: str, text: str, rows: "QuerySet[Any]", column: str, buckets_s: Iterable[float], *, as_duration: bool
) -> HistogramMetricFamily:
    """Return the histogram of one column, counted by the database in one query."""
    buckets = list(buckets_s)
    bound = (lambda s: timedelta(seconds=s)) if as_duration else (lambda s: s)
    counts: dict[str, Any] = {
        f"le_{i}": Count("pk", filter=Q(**{f"{column}__lte": bound(limit)})) for i, limit in enumerate(buckets)
    }
    found = rows.aggregate(**counts, count=Count("pk"), sum=Sum(column))
    total = found["sum"] or 0.0
    family = HistogramMetricFamily(f"clusterweb_{name}", text)
    family.add_metric(
        [],
        [(f"{float(limit)}", found[f"le_{i}"]) for i, limit in enumerate(buckets)] + [("+Inf", found["count"])],
        sum_value=total.total_seconds() if isinstance(total, timedelta) else total,
    )
    return family


def _between(later: str, earlier: str) -> "ExpressionWrapper[CombinedExpression]":
    return ExpressionWrapper(F(later) - F(earlier), output_field=DurationField())


class DatabaseCollector(Collector):
    """Everything that is counted, as of one moment."""

    def __init__(self, at: datetime) -> None:
        self._at = at

    def collect(self) -> Iterator[Family]:
        """Yield every metric family."""
        yield _gauge("build_info", "Version that runs.", ["version"], [([version_text()], 1.0)])
        yield from self._jobs()
        yield from self._times()
        yield from self._devices()
        yield from self._queues()

    def _jobs(self) -> Iterator[Family]:
        states = Job.objects.order_by().values_list("state", "queue__name").annotate(n=Count("pk"))
        yield _gauge("jobs", "Jobs by state.", ["state", "queue"], (([s, q], n) for s, q, n in states))
        submitted = Job.objects.order_by().values_list("queue__name").annotate(n=Count("pk"))
        yield _counter("job_submissions", "Jobs ever submitted.", ["queue"], (([q], n) for q, n in submitted))
        waiting = (
            Job.objects.filter(state=JobState.QUEUED)
            .order_by()
            .values_list("wait_reason", "queue__name")
            .annotate(n=Count("pk"))
        )
        yield _gauge(
            "pending_jobs", "Queued jobs by reason.", ["reason", "queue"], (([r, q], n) for r, q, n in waiting)
        )
        preempted = (
            Attempt.objects.exclude(preempt_rule="")
            .order_by()
            .values_list("preempt_rule", "job__queue__name")
            .annotate(n=Count("pk"))
        )
        yield _counter(
            "preemptions", "Attempts stopped by a rule.", ["rule", "queue"], (([r, q], n) for r, q, n in preempted)
        )

    def _times(self) -> Iterator[Family]:
        started = Job.objects.filter(first_started_at__isnull=False)
        yield _histogram(
            "queue_wait_seconds",
            "From submission to the first start.",
            started.annotate(wait=_between("first_started_at", "submitted_at")),
            "wait",
            WAIT_BUCKETS_S,
            as_duration=True,
        )
        completed = Job.objects.filter(state=JobState.COMPLETED, ended_at__isnull=False)
        yield _histogram(
            "job_completion_seconds",
            "From submission to completion.",
            completed.annotate(jct=_between("ended_at", "submitted_at")),
            "jct",
            COMPLETION_BUCKETS_S,
            as_duration=True,
        )
        yield _histogram(
            "round_duration_seconds",
            "Time that a round took.",
            Round.objects.all(),
            "duration_s",
            ROUND_BUCKETS_S,
            as_duration=False,
        )
        finished = Cluster.objects.filter(round_finished_at__isnull=False).values_list("round_finished_at", flat=True)
        yield _gauge(
            "round_last_success_timestamp_seconds",
            "When the last round finished.",
            [],
            (([], at.timestamp()) for at in finished if at is not None),
        )

    def _devices(self) -> Iterator[Family]:
        now = cluster_now(self._at)
        states = {
            "busy": now["busy_gpus"],
            "allocated_not_busy": now["allocated_gpus"] - now["busy_gpus"],
            "free": now["free_gpus"],
            "broken": now["broken_gpus"],
        }
        yield _gauge("gpus", "GPUs (or CPU slots) by state.", ["state"], (([s], max(0, n)) for s, n in states.items()))
        servers = Server.objects.order_by().values_list("state").annotate(n=Count("pk"))
        yield _gauge("servers", "Servers by state.", ["state"], (([s], n) for s, n in servers))
        rejected = Server.objects.aggregate(n=Sum("rejected_reports"))["n"] or 0
        yield _counter("rejected_reports", "Reports of agents that were not taken.", [], [([], rejected)])

    def _queues(self) -> Iterator[Family]:
        open_leases = Lease.objects.filter(closed_at__isnull=True).order_by().values_list("attempt__job__queue__name")
        held = dict(open_leases.annotate(n=Sum("num_gpus")))
        family = GaugeMetricFamily("clusterweb_queue_gpus", "GPUs of each queue.", labels=["queue", "kind"])
        for name, quota in Queue.objects.order_by("name").values_list("name", "quota_gpus"):
            allocated = held.get(name, 0)
            for kind, value in (("quota", quota), ("allocated", allocated), ("borrowed", max(0, allocated - quota))):
                family.add_metric([name, kind], value)
        yield family
        yield _counter("gpu_seconds", "GPU-seconds given to jobs.", ["use", "queue"], self._gpu_seconds())

    def _gpu_seconds(self) -> list[tuple[list[str], float]]:
        closed = Job.objects.order_by().values_list("queue__name").annotate(n=Sum("attained_gpu_s"))
        total: dict[str, float] = dict(closed)
        leases = Lease.objects.filter(closed_at__isnull=True)
        for name, num_gpus, opened_at in leases.values_list("attempt__job__queue__name", "num_gpus", "opened_at"):
            total[name] = total.get(name, 0.0) + num_gpus * max(0.0, (self._at - opened_at).total_seconds())
        return [(["allocated", name], value) for name, value in sorted(total.items())]


class Metrics(ApiView):
    """The metrics of the whole cluster."""

    rules = {"GET": ADMIN_OR_LOCAL}
    renderer_classes = [PlainText]

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        """Answer in the text format of Prometheus."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(DatabaseCollector(live_ports().clock.now()))
        return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
