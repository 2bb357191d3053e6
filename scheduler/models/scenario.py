"""What-if scenarios, their runs and trace files; and estimates of when jobs start."""

from django.conf import settings
from django.db import models
from django.db.models import Q


class ScenarioState(models.TextChoices):
    QUEUED = "queued", "queued"  # a worker has yet to read its starting point
    RUNNING = "running", "running"  # its starting point is kept, its runs are being made
    COMPLETED = "completed", "completed"  # every run has a result
    FAILED = "failed", "failed"  # its starting point, or a run, could not be used; ``error`` says why
    CANCELLED = "cancelled", "cancelled"  # a user stopped it


class RunState(models.TextChoices):
    QUEUED = "queued", "queued"  # no worker has it
    RUNNING = "running", "running"  # a worker has it and says so every second
    COMPLETED = "completed", "completed"  # its result is kept
    FAILED = "failed", "failed"  # ``error`` says why
    CANCELLED = "cancelled", "cancelled"  # its scenario was stopped


# ``ScenarioRun.variant`` of the past window as it happened, which is none of the variants.
AS_IT_WAS = 32_767

SCENARIO_OPEN = [ScenarioState.QUEUED, ScenarioState.RUNNING]
RUN_OPEN = [RunState.QUEUED, RunState.RUNNING]


class TraceFile(models.Model):
    """An uploaded trace. Its owner and admins may use it; its bytes are in ``TRACES_DIR``."""

    id = models.CharField(primary_key=True, max_length=26)  # ULID
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="trace_files")
    name = models.CharField(max_length=120)
    num_bytes = models.PositiveIntegerField()  # as it was sent
    created_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["owner", "-id"], name="trace_file_by_owner")]  # the list of a form

    def __str__(self) -> str:
        return self.name


class Scenario(models.Model):
    """A what-if question: one starting point, replayed under each variant."""

    id = models.CharField(primary_key=True, max_length=26)  # ULID
    name = models.CharField(max_length=120)
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="scenarios")
    created_at = models.DateTimeField()
    start = models.JSONField()  # {"kind": "live" | "past" | "trace" | "generator", ...}
    # Whether it shows the whole cluster: then it is for admins alone, unless ``for_queue`` is set.
    of_cluster = models.BooleanField()
    # The queue of a lead's question about the cluster; its runs keep no single jobs of other queues.
    for_queue = models.ForeignKey("scheduler.Queue", null=True, on_delete=models.CASCADE, related_name="scenarios")
    variants = models.JSONField()  # two to six, the first is what the others are compared with
    seeds = models.JSONField()
    trace_file = models.ForeignKey(TraceFile, null=True, on_delete=models.PROTECT, related_name="scenarios")
    state = models.CharField(max_length=10, choices=ScenarioState.choices, default=ScenarioState.QUEUED)
    error = models.CharField(max_length=500, default="", blank=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    # The starting point of every run, gzipped JSON, written once by the worker; and its description.
    base = models.BinaryField(null=True)
    about = models.JSONField(default=dict)  # text, happened (the past window as it was), warnings
    # The worker that reads its starting point, and when it last said so.
    worker = models.CharField(max_length=80, default="", blank=True)
    heartbeat_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.CheckConstraint(condition=Q(state__in=ScenarioState.values), name="scenario_state_known"),
            models.CheckConstraint(
                condition=Q(state__in=SCENARIO_OPEN, ended_at__isnull=True)
                | ~Q(state__in=SCENARIO_OPEN) & Q(ended_at__isnull=False),
                name="scenario_end_time_exactly_when_ended",
            ),
        ]
        indexes = [
            models.Index(fields=["owner", "-id"], name="scenario_by_owner"),  # the list of a lead
            models.Index(fields=["state"], condition=Q(state__in=SCENARIO_OPEN), name="scenario_open"),  # the worker
        ]

    def __str__(self) -> str:
        return self.name


class ScenarioRun(models.Model):
    """One variant with one seed."""

    scenario = models.ForeignKey(Scenario, on_delete=models.CASCADE, related_name="runs")
    variant = models.PositiveSmallIntegerField()  # place in the list of variants
    seed = models.PositiveBigIntegerField()
    state = models.CharField(max_length=10, choices=RunState.choices, default=RunState.QUEUED)
    error = models.CharField(max_length=500, default="", blank=True)
    attempts = models.PositiveSmallIntegerField(default=0)  # times a worker took it
    worker = models.CharField(max_length=80, default="", blank=True)
    heartbeat_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    done_jobs = models.PositiveIntegerField(default=0)
    num_jobs = models.PositiveIntegerField(default=0)
    early = models.JSONField(default=list)  # EarlyFigure as JSON: how it went up to moments that all runs share
    summary = models.JSONField(null=True)  # figures of the table
    figures = models.JSONField(null=True)  # curves of the charts
    costs = models.JSONField(default=dict)  # CPU seconds by part

    class Meta:
        ordering = ["scenario_id", "seed", "variant"]
        constraints = [
            models.UniqueConstraint(fields=["scenario", "variant", "seed"], name="scenario_run_once"),
            models.CheckConstraint(condition=Q(state__in=RunState.values), name="scenario_run_state_known"),
            models.CheckConstraint(
                condition=Q(state=RunState.COMPLETED, summary__isnull=False) | ~Q(state=RunState.COMPLETED),
                name="scenario_run_completed_has_result",
            ),
        ]
        indexes = [
            # what a worker takes next, and runs of killed workers
            models.Index(fields=["state", "id"], condition=Q(state__in=RUN_OPEN), name="scenario_run_open"),
        ]

    def __str__(self) -> str:
        return f"run {self.variant}/{self.seed} of {self.scenario_id}"


class StartEstimate(models.Model):
    """The estimated start of one waiting job, updated after rounds; kept after the start to know the error."""

    job = models.ForeignKey("scheduler.Job", on_delete=models.CASCADE, related_name="estimates")
    round_number = models.PositiveBigIntegerField()
    made_at = models.DateTimeField()
    # Half, and nine in ten, of the simulated futures start it by then; null when fewer start it at all.
    p50_at = models.DateTimeField(null=True)
    simulated_p90_at = models.DateTimeField(null=True)
    # The p90 that is shown: the simulated one, calibrated by past errors; null beyond the futures.
    p90_at = models.DateTimeField(null=True)
    reason = models.CharField(max_length=30, default="", blank=True)  # why there is no estimate; else empty
    futures = models.PositiveSmallIntegerField(default=0)
    starts_s = models.JSONField(default=list)  # seconds after ``made_at``, ascending; one a future that starts it
    # The first estimate of this wait.
    first_made_at = models.DateTimeField(null=True)
    first_p50_at = models.DateTimeField(null=True)
    first_simulated_p90_at = models.DateTimeField(null=True)
    first_p90_at = models.DateTimeField(null=True)
    # Whether it started by the first p90; null until known. Once known it has moved the late level.
    in_time = models.BooleanField(null=True)
    closed_at = models.DateTimeField(null=True)  # it waits no longer
    started_at = models.DateTimeField(null=True)  # it was granted GPUs; null when it stopped waiting otherwise
    error_s = models.FloatField(null=True)  # start minus the first p50

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["job"], condition=Q(closed_at__isnull=True), name="start_estimate_one_open_per_job"
            ),
        ]
        indexes = [
            # how far estimates were off lately
            models.Index(fields=["started_at"], condition=Q(error_s__isnull=False), name="start_estimate_by_start"),
        ]

    def __str__(self) -> str:
        return f"start of {self.job_id}"
