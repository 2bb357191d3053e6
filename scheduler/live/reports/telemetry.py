"""Collects measured values from reports and writes them as samples every few seconds."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypedDict

from django.db import transaction
from django.db.models import Count, Sum

from agents.protocol.signing import AttemptReport, ServerReport
from scheduler.core.model.lifecycle import HOLDING, WAITING
from scheduler.live.reports.gpu_use import Use
from scheduler.models import Job, Queue, Sample
from scheduler.models.event import SampleScope
from scheduler.selectors.cluster.overview import CLUSTER_VALUES, cluster_now, used_gpus

FLUSH_EVERY_S = 2.0


class JobValues(TypedDict):
    """What one report measured of a job, as ``Sample.values`` and live frames hold it; None where it did not."""

    step: int | None
    loss: float | None
    steps_per_s: float | None
    cpu_frac: float | None
    memory_bytes: int | None
    gpu_frac: float | None
    cached_frac: float | None


class QueueCounts(TypedDict):
    """The counts of one queue, as ``Sample.values`` and live frames hold them."""

    held_gpus: int
    quota_gpus: int
    waiting_jobs: int
    running_jobs: int


SampleJson = Mapping[str, object]  # JSON of ``Sample.values``: JobValues, QueueCounts, or values by name


@dataclass(slots=True)
class Telemetry:
    """Samples to write; of each second the newest values of a server, job or queue are kept.

    Attributes:
        waiting: Values by (scope, id, whole second of the wall clock).
        written_s: When they were last written, seconds of the monotonic clock.
        use: How busy the GPUs of jobs were, for the hourly use of each user.
    """

    waiting: dict[tuple[str, str, int], SampleJson] = field(default_factory=dict)
    written_s: float = 0.0
    use: Use = field(default_factory=Use)

    def take(self, server_id: str, report: ServerReport, job_of: dict[str, str], *, at: datetime) -> None:
        """Keep the values of one report; ``job_of`` maps the attempts that the server runs to their jobs."""
        second = int(at.timestamp())
        gpu_frac = [device.utilization_frac for device in report.devices]
        server: dict[str, object] = {"cpu_frac": report.cpu_frac, "memory_bytes": report.used_memory_bytes}
        if any(frac is not None for frac in gpu_frac):
            server["gpu_frac"] = gpu_frac
        self._put(SampleScope.SERVER, server_id, second, server)
        for attempt in report.attempts:
            if attempt.attempt_id in job_of and attempt.phase != "ended":
                self._put(SampleScope.JOB, job_of[attempt.attempt_id], second, job_values(attempt))
                self.use.take(attempt.attempt_id, at_s=at.timestamp(), gpu_frac=attempt.gpu_frac)

    def _put(self, scope: str, scope_id: str, second: int, values: SampleJson) -> None:
        measured = {name: value for name, value in values.items() if value is not None}
        if measured:
            self.waiting[scope, scope_id, second] = measured

    def flush(self, *, at: datetime, now_s: float) -> bool:
        """Write the samples, with those of cluster and queues, if FLUSH_EVERY_S have passed; return whether it did."""
        if now_s - self.written_s < FLUSH_EVERY_S:
            return False
        self.written_s = now_s
        self.use.flush(now_s=now_s)
        waiting, self.waiting = self.waiting, {}
        second = int(at.timestamp())
        waiting[SampleScope.CLUSTER, "1", second] = cluster_values(at)
        for queue_id, values in queue_values().items():
            waiting[SampleScope.QUEUE, str(queue_id), second] = values
        samples = [
            Sample(
                scope=scope,
                scope_id=scope_id,
                at=datetime.fromtimestamp(moment, tz=at.tzinfo),
                resolution_s=1,
                values=values,
            )
            for (scope, scope_id, moment), values in sorted(waiting.items())
        ]
        with transaction.atomic():
            Sample.objects.bulk_create(samples, batch_size=500)
        return True


def job_values(attempt: AttemptReport) -> JobValues:
    """Return what one report measured of a job."""
    return {
        "step": attempt.step,
        "loss": attempt.loss,
        "steps_per_s": attempt.steps_per_s,
        "cpu_frac": attempt.cpu_frac,
        "memory_bytes": attempt.memory_bytes,
        "gpu_frac": attempt.gpu_frac,
        "cached_frac": attempt.cached_frac,
    }


def cluster_values(at: datetime) -> SampleJson:
    """Return the sample of the whole cluster now: the same counts that the overview shows."""
    now = cluster_now(at)
    return {**{name: now[name] for name in CLUSTER_VALUES}, "used_gpus": used_gpus(at)}


def queue_values() -> dict[int, QueueCounts]:
    """Return the sample of every queue now, without the queues below it."""
    values: dict[int, QueueCounts] = {
        pk: {"held_gpus": 0, "quota_gpus": quota, "waiting_jobs": 0, "running_jobs": 0}
        for pk, quota in Queue.objects.order_by("pk").values_list("pk", "quota_gpus")
    }
    rows = Job.objects.filter(state__in=HOLDING | WAITING).values_list("queue_id", "state")
    for queue_id, state, jobs, gpus in rows.annotate(Count("pk"), Sum("num_gpus")):
        of_queue = values[queue_id]
        if state in WAITING:
            of_queue["waiting_jobs"] += jobs
        else:
            of_queue["running_jobs"] += jobs
            of_queue["held_gpus"] += gpus
    return values
