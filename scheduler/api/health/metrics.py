"""``/metrics`` for Prometheus: read from the database at each scrape, so that every web process gives the same values.

Only times of requests are of the process that answers. No label names a job or a user. Open to requests from the same
machine, else to admins' tokens.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from django.db.models import Count, F, FloatField, Func, Q, QuerySet, Sum
from django.db.models.expressions import Combinable
from django.http import HttpResponse
from drf_spectacular.utils import extend_schema
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from rest_framework.request import Request

from scheduler.api.health.request_times import REQUEST_TIMES
from scheduler.api.health.views import version_text
from scheduler.api.http.permissions import ADMIN_OR_LOCAL
from scheduler.api.http.renderers import PlainText
from scheduler.api.http.view import ApiView
from scheduler.core.model.lifecycle import JobState
from scheduler.models import (
    Attempt,
    Cluster,
    Delivery,
    Job,
    JobDay,
    Lease,
    Queue,
    Round,
    ScenarioRun,
    Server,
    StartEstimate,
    UsageHour,
)
from scheduler.ports import live_ports
from scheduler.selectors.cluster.fairness import mean_rho_by_queue
from scheduler.selectors.cluster.overview import cluster_now
from scheduler.selectors.queues.usage import lent_now

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


def _counts(rows: "QuerySet[Any]", *columns: str) -> Iterator[tuple[list[str], int]]:
    """Yield the values of the columns with the number of rows that have them."""
    for *values, number in rows.order_by().values_list(*columns).annotate(n=Count("pk")):
        yield values, number


def _with_removed(jobs: "QuerySet[Job]", *columns: str) -> list[tuple[list[str], int]]:
    """Return ``_counts`` of jobs, with those that are no longer kept."""
    total: Counter[tuple[str, ...]] = Counter()
    for values, number in _counts(jobs, *columns):
        total[tuple(values)] += number
    for *values, number in JobDay.objects.order_by().values_list(*columns).annotate(n=Sum("num_jobs")):
        total[tuple(values)] += number
    return [(list(values), number) for values, number in sorted(total.items())]


class Seconds(Func):
    """A time as seconds since some fixed moment, by the database's own arithmetic.

    Django's difference of two times calls back into Python for every row of SQLite, once for every bucket.
    """

    output_field = FloatField()

    def as_sqlite(self, compiler: Any, connection: Any, **context: Any) -> Any:  # Django's own signature
        """Return Julian days as seconds."""
        return self.as_sql(compiler, connection, template="(julianday(%(expressions)s) * 86400.0)", **context)

    def as_postgresql(self, compiler: Any, connection: Any, **context: Any) -> Any:  # Django's own signature
        """Return seconds since 1970."""
        return self.as_sql(compiler, connection, template="EXTRACT(EPOCH FROM %(expressions)s)", **context)


def _histogram(
    name: str, text: str, rows: "QuerySet[Any]", seconds: Combinable, buckets_s: Sequence[float]
) -> HistogramMetricFamily:
    """Return the histogram of an expression, counted by the database in one query."""
    measured = rows.annotate(measured_s=seconds)
    counts: dict[str, Any] = {
        f"le_{i}": Count("pk", filter=Q(measured_s__lte=limit)) for i, limit in enumerate(buckets_s)
    }
    found = measured.aggregate(**counts, count=Count("pk"), sum=Sum("measured_s"))
    family = HistogramMetricFamily(f"clusterweb_{name}", text)
    buckets = [(str(float(limit)), found[f"le_{i}"]) for i, limit in enumerate(buckets_s)]
    family.add_metric([], [*buckets, ("+Inf", found["count"])], sum_value=found["sum"] or 0.0)
    return family


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
        yield from self._what_if()
        ended = _counts(Delivery.objects.filter(webhook__isnull=False), "state")
        text = "Messages of the last 30 days to webhooks, by what became of them."
        yield _counter("webhook_deliveries", text, ["result"], ended)

    def _jobs(self) -> Iterator[Family]:
        by_state = _with_removed(Job.objects.all(), "state", "queue__name")
        yield _gauge("jobs", "Jobs by state, also those no longer kept.", ["state", "queue"], by_state)
        submitted = _with_removed(Job.objects.all(), "queue__name")
        yield _counter("job_submissions", "Jobs ever submitted.", ["queue"], submitted)
        waiting = _counts(Job.objects.filter(state=JobState.QUEUED), "wait_reason", "queue__name")
        yield _gauge("pending_jobs", "Queued jobs by reason.", ["reason", "queue"], waiting)
        preempted = _counts(Attempt.objects.exclude(preempt_rule=""), "preempt_rule", "job__queue__name")
        yield _counter(
            "preemptions", "Attempts stopped by a rule, of the jobs that are kept.", ["rule", "queue"], preempted
        )

    def _times(self) -> Iterator[Family]:
        started = Job.objects.filter(first_started_at__isnull=False)
        waited = Seconds("first_started_at") - Seconds("submitted_at")
        yield _histogram("queue_wait_seconds", "From submission to the first start.", started, waited, WAIT_BUCKETS_S)
        completed = Job.objects.filter(state=JobState.COMPLETED, ended_at__isnull=False)
        took = Seconds("ended_at") - Seconds("submitted_at")
        yield _histogram(
            "job_completion_seconds", "From submission to completion.", completed, took, COMPLETION_BUCKETS_S
        )
        yield _histogram(
            "round_duration_seconds", "Time that a round took.", Round.objects.all(), F("duration_s"), ROUND_BUCKETS_S
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
            "allocated_not_busy": now["allocated_gpus"] - now["busy_gpus"] - now["unknown_gpus"],
            "allocated_unknown": now["unknown_gpus"],
            "free": now["free_gpus"],
            "drained": now["drained_gpus"],
            "broken": now["broken_gpus"],
        }
        yield _gauge("gpus", "GPUs (or CPU slots) by state.", ["state"], (([s], max(0, n)) for s, n in states.items()))
        yield _gauge("servers", "Servers by state.", ["state"], _counts(Server.objects.all(), "state"))
        rejected = Server.objects.aggregate(n=Sum("rejected_reports"))["n"] or 0
        yield _counter("rejected_reports", "Reports of agents that were not taken.", [], [([], rejected)])

    def _queues(self) -> Iterator[Family]:
        open_leases = Lease.objects.filter(closed_at__isnull=True).order_by().values_list("attempt__job__queue__name")
        held = dict(open_leases.annotate(n=Sum("num_gpus")))
        lent = lent_now(self._at)
        family = GaugeMetricFamily("clusterweb_queue_gpus", "GPUs of each queue.", labels=["queue", "kind"])
        for name, quota in Queue.objects.order_by("name").values_list("name", "quota_gpus"):
            allocated = held.get(name, 0)
            kinds = {"quota": quota, "allocated": allocated, "borrowed": max(0, allocated - quota), "lent": lent[name]}
            for kind, value in kinds.items():
                family.add_metric([name, kind], value)
        yield family
        yield _gauge(
            "finish_time_fairness_ratio",
            "Mean rho of jobs that completed within a day or run now; above 1 is worse off than alone on a share.",
            ["queue"],
            (([name], rho) for name, rho in sorted(mean_rho_by_queue(Job.objects.all(), self._at).items())),
        )
        yield _counter("gpu_seconds", "GPU-seconds given to jobs.", ["use", "queue"], self._gpu_seconds())

    def _what_if(self) -> Iterator[Family]:
        """Yield how far estimates of starts were off, and what became of what-if runs."""
        off = StartEstimate.objects.filter(error_s__isnull=False)
        error = Func(F("error_s"), function="ABS", output_field=FloatField())
        text = "Size of the error of the first estimate of a job's start."
        yield _histogram("eta_error_seconds", text, off, error, WAIT_BUCKETS_S)
        runs = _counts(ScenarioRun.objects.all(), "state")
        yield _gauge("whatif_runs", "What-if runs that are kept, by state.", ["state"], runs)

    def _gpu_seconds(self) -> list[tuple[list[str], float]]:
        closed = Job.objects.order_by().values_list("queue__name").annotate(n=Sum("attained_gpu_s"))
        total: dict[str, float] = dict(closed)
        removed = JobDay.objects.order_by().values_list("queue__name").annotate(n=Sum("attained_gpu_s"))
        for name, gpu_s in removed:
            total[name] = total.get(name, 0.0) + gpu_s
        leases = Lease.objects.filter(closed_at__isnull=True)
        for name, num_gpus, opened_at in leases.values_list("attempt__job__queue__name", "num_gpus", "opened_at"):
            total[name] = total.get(name, 0.0) + num_gpus * max(0.0, (self._at - opened_at).total_seconds())
        busy = UsageHour.objects.order_by("queue__name").values_list("queue__name").annotate(n=Sum("busy_gpu_s"))
        return [
            *((["allocated", name], value) for name, value in sorted(total.items())),
            *((["busy", name], value) for name, value in busy),
        ]


class Metrics(ApiView):
    """The metrics of the whole cluster."""

    rules = {"GET": ADMIN_OR_LOCAL}
    renderer_classes = [PlainText]

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        """Answer in the text format of Prometheus."""
        registry = CollectorRegistry(auto_describe=False)
        registry.register(DatabaseCollector(live_ports().clock.now()))
        registry.register(REQUEST_TIMES)
        return HttpResponse(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)
