"""Events (append-only), measured samples, hourly GPU use, jobs gone by day, and answers kept for repeated requests."""

import structlog
from django.conf import settings
from django.db import models
from django.db.models import Q


def present_request_id() -> str:
    """Return the id of the present request; empty in the scheduler and for agents."""
    return str(structlog.contextvars.get_contextvars().get("request_id", ""))


class Event(models.Model):
    """An event of a job, server, queue or the cluster. Never changed; removed with its job, or by age."""

    at = models.DateTimeField()
    kind = models.CharField(max_length=40)  # job_state, job_progress, server_state, quota, policy, report_rejected, ...
    actor = models.CharField(max_length=150)  # user name, "scheduler", or "agent <server name>"
    job = models.ForeignKey("scheduler.Job", null=True, on_delete=models.CASCADE, related_name="events")
    number = models.PositiveIntegerField(null=True)  # 1, 2, 3 ... within the job, without gaps
    server = models.ForeignKey("scheduler.Server", null=True, on_delete=models.SET_NULL, related_name="events")
    queue = models.ForeignKey("scheduler.Queue", null=True, on_delete=models.SET_NULL, related_name="events")
    old_state = models.CharField(max_length=12, default="", blank=True)
    new_state = models.CharField(max_length=12, default="", blank=True)
    reason = models.CharField(max_length=40, default="", blank=True)  # code: cause, rule, or what a user did
    data = models.JSONField(default=dict)  # the numbers; also before and after of a setting
    # Set exactly when a person did it: these events are the audit list.
    request_id = models.CharField(max_length=24, default=present_request_id, blank=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["job", "number"], name="event_number_once"),
            models.CheckConstraint(
                condition=Q(job__isnull=True) | Q(number__isnull=False), name="event_of_job_is_numbered"
            ),
        ]
        indexes = [
            models.Index(fields=["queue", "-id"], name="event_by_queue"),  # feed of a queue
            models.Index(fields=["kind", "-id"], name="event_by_kind"),  # who changed the settings last
            models.Index(fields=["-id"], condition=~Q(request_id=""), name="event_audited"),  # audit list
            models.Index(fields=["request_id"], condition=~Q(request_id=""), name="event_by_request"),  # what it did
        ]

    def __str__(self) -> str:
        return f"{self.kind} {self.reason}"


class SampleScope(models.TextChoices):
    CLUSTER = "cluster", "cluster"
    QUEUE = "queue", "queue"
    SERVER = "server", "server"
    JOB = "job", "job"


class Sample(models.Model):
    """Measured values of the cluster, a queue, server or job over ``resolution_s`` seconds from ``at``.

    Rolled up with age; sums are kept. Values by scope (missing key = not measured):
        cluster: busy_gpus, unknown_gpus, used_gpus, allocated_gpus, num_gpus, drained_gpus, broken_gpus, waiting_jobs,
            running_jobs
        queue: held_gpus, quota_gpus, waiting_jobs, running_jobs
        server: cpu_frac, memory_bytes, gpu_frac (list, one per device)
        job: step, loss, steps_per_s, cpu_frac, memory_bytes, gpu_frac, cached_frac
    """

    scope = models.CharField(max_length=8, choices=SampleScope.choices)
    scope_id = models.CharField(max_length=26)  # primary key as text; "1" for the cluster
    at = models.DateTimeField()
    resolution_s = models.PositiveIntegerField(default=1)
    values = models.JSONField()

    class Meta:
        ordering = ["at"]
        indexes = [
            models.Index(fields=["scope", "scope_id", "resolution_s", "at"], name="sample_series"),  # a chart
            models.Index(fields=["resolution_s", "at"], name="sample_by_age"),  # roll-up
        ]

    def __str__(self) -> str:
        return f"{self.scope} {self.scope_id} {self.at}"


class UsageHour(models.Model):
    """How busy the GPUs were that one user's jobs in one queue held in one hour (UTC); leases count the allocation.

    Rows that are older than jobs are kept are merged to one a day.
    """

    hour = models.DateTimeField()  # begin
    num_hours = models.PositiveSmallIntegerField(default=1)  # 1, or 24 for a whole day
    queue = models.ForeignKey("scheduler.Queue", on_delete=models.CASCADE, related_name="usage_hours")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="usage_hours")
    measured_gpu_s = models.FloatField(default=0.0)  # GPU-seconds of which the utilization is known
    busy_gpu_s = models.FloatField(default=0.0)  # the same, each times its utilization
    # GPU-seconds of leases that were removed with their jobs, see ``services/retention``.
    removed_gpu_s = models.FloatField(default=0.0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["hour", "queue", "user"], name="usage_hour_once")]

    def __str__(self) -> str:
        return f"{self.user} in {self.queue} at {self.hour}"


class JobDay(models.Model):
    """How many jobs of one user in one queue ended in one way on one day (UTC), of those removed since."""

    day = models.DateTimeField()
    queue = models.ForeignKey("scheduler.Queue", on_delete=models.CASCADE, related_name="job_days")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="job_days")
    state = models.CharField(max_length=12)
    num_jobs = models.PositiveIntegerField(default=0)
    attained_gpu_s = models.FloatField(default=0.0)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["day", "queue", "user", "state"], name="job_day_once")]

    def __str__(self) -> str:
        return f"{self.num_jobs} {self.state} of {self.user} in {self.queue} on {self.day}"


class IdempotencyKey(models.Model):
    """The first answer to a POST with an ``Idempotency-Key``; stored in the same transaction as its effect."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE)
    route = models.CharField(max_length=80)
    key = models.CharField(max_length=200)
    body_hash = models.CharField(max_length=64)
    status = models.PositiveSmallIntegerField()
    body = models.JSONField()
    location = models.CharField(max_length=200, default="", blank=True)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["user", "route", "key"], name="idempotency_key_once")]
        indexes = [models.Index(fields=["created_at"], name="idempotency_by_age")]  # old keys are forgotten

    def __str__(self) -> str:
        return f"{self.route} {self.key}"
