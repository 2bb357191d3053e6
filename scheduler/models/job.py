"""Jobs, their attempts and the leases that rounds gave them."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from scheduler.core.model.lifecycle import TERMINAL, WAITING, EndCause, JobState
from scheduler.core.model.plan import WaitReason
from scheduler.core.operations.failures import MACHINE, FailureClass

STATES = [(state.value, state.value) for state in JobState]
CAUSES = [(cause.value, cause.value) for cause in EndCause]
FAILURES = [(failure.value, failure.value) for failure in FailureClass]
REASONS = [(reason.value, reason.value) for reason in WaitReason]
ENDED = sorted(state.value for state in TERMINAL)
WANTED_OF_JOB = ["run", "suspend", "cancel"]
WANTED_OF_ATTEMPT = ["run", "park", "preempt", "suspend", "cancel"]
WAITS = sorted(state.value for state in WAITING)


class Job(models.Model):
    """One training job as its owner submitted it, and its present state."""

    id = models.CharField(primary_key=True, max_length=26)  # ULID
    number = models.PositiveBigIntegerField(unique=True)  # shown as J-<number>; row id in the core
    name = models.CharField(max_length=80)
    queue = models.ForeignKey("scheduler.Queue", on_delete=models.PROTECT, related_name="jobs")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="jobs")
    spec = models.JSONField()  # the whole spec with its defaults filled in
    # Copies of spec fields that the scheduler and the lists need as columns.
    names_secrets = models.BooleanField(default=False)
    num_gpus = models.PositiveIntegerField()
    priority = models.IntegerField(default=50)
    preemptible = models.BooleanField(default=True)
    max_attempts = models.PositiveIntegerField(default=5)  # 1 + retries for causes of the job's own
    code = models.CharField(max_length=64, default="", blank=True)  # SHA-256 of its folder's manifest
    environment = models.ForeignKey("scheduler.Environment", null=True, on_delete=models.SET_NULL, related_name="jobs")
    profile = models.ForeignKey("scheduler.Profile", null=True, on_delete=models.SET_NULL)
    # Of a job of an array: the number of its first job, which names it A-<number>; its own index; jobs at work at once.
    array_number = models.PositiveBigIntegerField(null=True)
    array_index = models.PositiveIntegerField(null=True)
    array_most = models.PositiveIntegerField(default=0)  # 0 for all
    # What has to end before it starts, as ``core/spec/depends_on.py`` writes it; what has ended so is struck out.
    waits_for = models.CharField(max_length=500, default="", blank=True)
    # State. Written by services/jobs/state.py alone.
    state = models.CharField(max_length=12, choices=STATES, default=JobState.QUEUED)
    state_changed_at = models.DateTimeField()
    event_count = models.PositiveIntegerField(default=0)  # number of the newest event; leaves no gaps
    wanted = models.CharField(max_length=10, default="run")  # run | suspend | cancel: what its owner wants
    weight = models.FloatField(default=1.0)  # share of GPU time beside its peers where jobs take turns
    # Why it waits, from the last round; empty exactly when it does not wait.
    wait_reason = models.CharField(max_length=30, choices=REASONS, default=WaitReason.NEW, blank=True)
    wait_evidence = models.JSONField(default=dict)
    wait_position = models.PositiveIntegerField(null=True)
    wait_since = models.DateTimeField(null=True)  # since when it waits for this reason
    # The reason of the newest event about its wait, and when that was: reasons that flicker are not told each time.
    told_reason = models.CharField(max_length=30, choices=REASONS, default=WaitReason.NEW)
    told_at = models.DateTimeField(null=True)
    wait_round = models.PositiveBigIntegerField(null=True)
    retry_after = models.DateTimeField(null=True)
    # Times.
    submitted_at = models.DateTimeField()
    first_started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    end_cause = models.CharField(max_length=20, choices=CAUSES, default="", blank=True)
    end_detail = models.CharField(max_length=300, default="", blank=True)
    # Service, counted from leases, never from what the job says.
    attained_gpu_s = models.FloatField(default=0.0)  # all closed leases
    promoted_gpu_s = models.FloatField(default=0.0)  # attained_gpu_s at the last promotion (Tiresias)
    executed_s = models.FloatField(default=0.0)  # run time of closed attempts
    queueing_s = models.FloatField(default=0.0)  # closed waiting intervals
    preemptions = models.PositiveIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)  # attempts ended by a cause of the job's own
    smoke_due = models.BooleanField(default=False)  # its next attempt is a short one on one GPU
    saved_gpu_s = models.FloatField(null=True)  # GPU-seconds that ending it early left unused
    # Progress as reported by the live attempt; shown, never used for priority.
    step = models.PositiveBigIntegerField(null=True)
    total_steps = models.PositiveBigIntegerField(null=True)
    loss = models.FloatField(null=True)
    steps_per_s = models.FloatField(null=True)
    progress_at = models.DateTimeField(null=True)
    # Its directory in the shared directory: size as its agent last measured it; null when it never had one.
    directory_bytes = models.PositiveBigIntegerField(null=True)
    directory_removal_at = models.DateTimeField(null=True)  # since when it is to be removed
    directory_removed_at = models.DateTimeField(null=True)
    keep_directory_until = models.DateTimeField(null=True)  # set by a user; counts where its queue keeps it less long
    # Since when its GPUs are idle; set with the event. Kept by a job that is suspended or cancelled for it.
    idle_since = models.DateTimeField(null=True)
    # "Latest" checkpoint: moves only by an accepted report of the live attempt (fencing).
    checkpoint_attempt = models.ForeignKey(
        "scheduler.Attempt", null=True, on_delete=models.SET_NULL, related_name="+", db_constraint=False
    )
    checkpoint_name = models.CharField(max_length=80, default="", blank=True)
    checkpoint_step = models.PositiveBigIntegerField(null=True)
    checkpoint_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-number"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=[s.value for s in JobState]), name="job_state_known"),
            models.CheckConstraint(condition=Q(num_gpus__gte=1), name="job_asks_a_gpu"),
            models.CheckConstraint(
                condition=Q(state__in=WAITS) & ~Q(wait_reason="") | ~Q(state__in=WAITS) & Q(wait_reason=""),
                name="job_reason_exactly_when_waiting",
            ),
            models.CheckConstraint(condition=Q(weight__gt=0), name="job_weight_positive"),
            models.CheckConstraint(
                condition=Q(state__in=ENDED, ended_at__isnull=False) | ~Q(state__in=ENDED) & Q(ended_at__isnull=True),
                name="job_end_time_exactly_when_ended",
            ),
            models.CheckConstraint(condition=Q(wanted__in=WANTED_OF_JOB), name="job_wanted_known"),
        ]
        indexes = [
            # snapshot of a round, counts by state
            models.Index(fields=["state", "number"], name="job_by_state"),
            # job list of a queue, newest first
            models.Index(fields=["queue", "-number"], name="job_by_queue"),
            # "my jobs"
            models.Index(fields=["owner", "-number"], name="job_by_owner"),
            # how many jobs a user has queued
            models.Index(fields=["owner", "state", "queue"], name="job_by_owner_and_state"),
            # the job list in its other orders
            models.Index(fields=["num_gpus", "number"], name="job_by_size"),
            models.Index(fields=["priority", "number"], name="job_by_priority"),
            models.Index(fields=["name", "number"], name="job_by_name"),
            models.Index(fields=["submitted_at", "number"], name="job_by_submission"),
            models.Index(fields=["state_changed_at", "number"], name="job_by_change"),
            # retries that are due
            models.Index(fields=["retry_after"], condition=Q(retry_after__isnull=False), name="job_by_retry"),
            # jobs with idle GPUs
            models.Index(fields=["number"], condition=Q(idle_since__isnull=False), name="job_idle"),
            # jobs that need a sent folder
            models.Index(fields=["code", "state"], condition=~Q(code=""), name="job_by_code"),
            # the jobs of an array
            models.Index(
                fields=["array_number", "array_index"],
                condition=Q(array_number__isnull=False),
                name="job_by_array",
            ),
            # jobs that wait for others
            models.Index(fields=["number"], condition=~Q(waits_for=""), name="job_waits_for"),
            # JCT and wait over the last day
            models.Index(fields=["ended_at", "number"], name="job_by_end"),
            # directories that are old enough to go
            models.Index(
                fields=["ended_at", "number"],
                condition=Q(directory_bytes__isnull=False, directory_removed_at__isnull=True),
                name="job_with_directory",
            ),
        ]

    def __str__(self) -> str:
        return f"J-{self.number} {self.name}"


class WrittenLoss(models.Model):
    """The loss in the files of a job that reported none, as ``live/observed/written_losses.py`` last read it."""

    job = models.OneToOneField(Job, primary_key=True, on_delete=models.CASCADE, related_name="written_loss")
    source = models.CharField(max_length=300, default="", blank=True)  # ``loss in metrics.csv``; empty without one
    curve = models.JSONField(default=list)  # [[step, loss], ...], thinned, the newest last
    step = models.PositiveBigIntegerField(null=True)  # both of the newest point; null without one
    loss = models.FloatField(null=True)
    read_at = models.DateTimeField()
    is_whole = models.BooleanField(default=False)  # all was read that there was then
    is_final = models.BooleanField(default=False)  # and the job had ended

    class Meta:
        constraints = [
            models.CheckConstraint(
                condition=Q(loss__isnull=True, step__isnull=True) | Q(loss__isnull=False, step__isnull=False),
                name="written_loss_has_its_step",
            ),
        ]

    def __str__(self) -> str:
        return f"loss of {self.job_id}"


class AttemptState(models.TextChoices):
    LAUNCHING = "launching", "launching"  # leases are open, the agent has not reported it
    RUNNING = "running", "running"  # the agent reported its process
    PARKED = "parked", "parked"  # off its GPUs until its next turn; its leases are for memory alone
    STOPPING = "stopping", "stopping"  # asked to checkpoint and end
    ENDED = "ended", "ended"  # its leases are closed


class AttemptKind(models.TextChoices):
    FULL = "full", "full"  # all its GPUs, until it ends
    SMOKE = "smoke", "smoke"  # its first iterations on one GPU, before its gang is started


class Reported(models.Model):
    """What an agent reports of a run: of an attempt, or of one process of a gang."""

    started_at = models.DateTimeField(null=True)  # first report of its process
    ended_at = models.DateTimeField(null=True)
    end_cause = models.CharField(max_length=20, choices=CAUSES, default="", blank=True)
    end_detail = models.CharField(max_length=300, default="", blank=True)
    exit_code = models.IntegerField(null=True)
    exit_signal = models.IntegerField(null=True)
    # What failed, and the line of its output that says so; secrets are hidden before it leaves the server.
    failure = models.CharField(max_length=20, choices=FAILURES, default="", blank=True)
    failure_line = models.CharField(max_length=300, default="", blank=True)
    peak_memory_bytes = models.PositiveBigIntegerField(null=True)
    log_bytes = models.PositiveBigIntegerField(default=0)

    class Meta:
        abstract = True


class Attempt(Reported):
    """One run of a job, from launch to one end."""

    id = models.CharField(primary_key=True, max_length=26)  # ULID
    job = models.ForeignKey(Job, on_delete=models.CASCADE, related_name="attempts")
    number = models.PositiveIntegerField()
    state = models.CharField(max_length=10, choices=AttemptState.choices, default=AttemptState.LAUNCHING)
    kind = models.CharField(max_length=5, choices=AttemptKind.choices, default=AttemptKind.FULL)
    num_gpus = models.PositiveIntegerField()
    is_lent = models.BooleanField(
        default=False
    )  # the newest round lent it its GPUs, see ``scheduler.core.round.shares.loans``
    epoch = models.PositiveBigIntegerField()
    round_number = models.PositiveBigIntegerField()
    # What the agent is asked for: run | park | preempt | suspend | cancel. The last three are never taken back.
    wanted = models.CharField(max_length=10, default="run")
    stop_requested_at = models.DateTimeField(null=True)
    resume_attempt_id = models.CharField(
        max_length=26, default="", blank=True
    )  # attempt of the checkpoint it starts from
    resume_name = models.CharField(max_length=80, default="", blank=True)
    resume_step = models.PositiveBigIntegerField(null=True)
    created_at = models.DateTimeField()
    first_step = models.PositiveBigIntegerField(null=True)
    last_step = models.PositiveBigIntegerField(null=True)
    # Receipt of a preemption, or of the newest parking: by whom, by which rule, what was lost.
    preempted_by = models.ForeignKey(Job, null=True, on_delete=models.SET_NULL, related_name="+")
    preempt_rule = models.CharField(max_length=20, default="", blank=True)
    lost_s = models.FloatField(null=True)

    class Meta:
        ordering = ["job_id", "number"]
        constraints = [
            models.UniqueConstraint(fields=["job", "number"], name="attempt_number_once"),
            models.CheckConstraint(condition=Q(state__in=AttemptState.values), name="attempt_state_known"),
            models.CheckConstraint(condition=Q(wanted__in=WANTED_OF_ATTEMPT), name="attempt_wanted_known"),
            models.UniqueConstraint(
                fields=["job"], condition=~Q(state=AttemptState.ENDED), name="attempt_one_open_per_job"
            ),
            models.CheckConstraint(
                condition=Q(state=AttemptState.ENDED, ended_at__isnull=False)
                | (~Q(state=AttemptState.ENDED) & Q(ended_at__isnull=True)),
                name="attempt_ended_has_time",
            ),
        ]
        indexes = [
            # failures of machines in the last hour
            models.Index(
                fields=["ended_at"],
                condition=Q(failure__in=[failure.value for failure in sorted(MACHINE)]),
                name="attempt_of_machine_by_end",
            ),
        ]

    def __str__(self) -> str:
        return f"attempt {self.number} of {self.job_id}"


class Lease(models.Model):
    """What a round gave one attempt on one server: GPUs, cores, bytes. Open until ``closed_at``.

    A parked attempt holds memory alone; when it continues it gets another lease.
    """

    attempt = models.ForeignKey(Attempt, on_delete=models.CASCADE, related_name="leases")
    server = models.ForeignKey("scheduler.Server", on_delete=models.PROTECT, related_name="leases")
    num_gpus = models.PositiveIntegerField()
    cpus = models.FloatField()
    cpu_ids = models.JSONField(default=list)  # logical CPUs of the server that it is pinned to
    memory_bytes = models.PositiveBigIntegerField()
    epoch = models.PositiveBigIntegerField()
    generation = models.PositiveBigIntegerField()  # of the server, when the lease was given or last changed
    opened_at = models.DateTimeField()
    closed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["attempt", "server"], condition=Q(closed_at__isnull=True), name="lease_one_open_per_server"
            ),
            models.CheckConstraint(condition=Q(num_gpus__gte=1) | Q(cpus=0), name="lease_has_a_gpu_or_only_memory"),
        ]
        indexes = [
            # what a server's desired state holds
            models.Index(fields=["server"], condition=Q(closed_at__isnull=True), name="lease_open_by_server"),
            # allocation over time
            models.Index(fields=["opened_at"], name="lease_by_opening"),
        ]

    def __str__(self) -> str:
        return f"lease of {self.attempt_id} on {self.server_id}"


class LeaseGpu(models.Model):
    """One GPU of a lease. The database itself refuses a GPU in two open leases but for a guest beside its host."""

    lease = models.ForeignKey(Lease, on_delete=models.CASCADE, related_name="gpus")
    gpu = models.ForeignKey("scheduler.Gpu", on_delete=models.PROTECT, related_name="leases")
    slot = models.PositiveSmallIntegerField(default=0)  # place on a shared GPU: a packed pair has 0 and 1
    released_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["gpu", "slot"], condition=Q(released_at__isnull=True), name="gpu_leased_once"
            ),
            models.UniqueConstraint(fields=["lease", "gpu"], name="lease_gpu_once"),
        ]

    def __str__(self) -> str:
        return f"{self.gpu_id} of lease {self.lease_id}"
