"""Servers, their GPUs, and the protocol state of their agents."""

from django.db import models
from django.db.models import Q
from django.utils import timezone

from agents.protocol.signing import SIMULATED


class ServerState(models.TextChoices):
    JOINING = "joining", "joining"  # known, its agent has not reported yet
    UP = "up", "up"  # reports; offered to rounds
    DRAINING = "draining", "draining"  # reports; its jobs are moved away, nothing new starts
    LOST = "lost", "lost"  # silent for longer than its lease; its jobs went back to their queues


class PresentServers(models.Manager["Server"]):
    """The servers that were not removed. Rows of the past reach a removed one through their foreign key."""

    def get_queryset(self) -> models.QuerySet["Server"]:
        """Leave removed servers out."""
        return super().get_queryset().filter(removed_at=None)


class Server(models.Model):
    """One machine with an agent. ``id`` has one fixed length, so that no broker key is the prefix of another."""

    id = models.CharField(primary_key=True, max_length=12)  # "s" + 11 of a-z0-9
    number = models.PositiveIntegerField(unique=True)  # row id in the core; order on pages
    name = models.CharField(max_length=63)
    labels = models.JSONField(default=list, blank=True)  # words for readers; no round looks at them
    rack = models.CharField(max_length=40, default="", blank=True)
    state = models.CharField(max_length=10, choices=ServerState.choices, default=ServerState.JOINING)
    state_reason = models.CharField(max_length=500, default="", blank=True)
    state_changed_at = models.DateTimeField()
    # "gpu" or "cpu_slot": a CPU slot is called so on every page.
    device_kind = models.CharField(max_length=10, default="cpu_slot")
    num_cpus = models.PositiveIntegerField(default=0)
    memory_bytes = models.PositiveBigIntegerField(default=0)
    trusted_size = models.JSONField(default=dict, blank=True)  # said first, or confirmed; empty before the first report
    claimed_size = models.JSONField(null=True, blank=True)  # what it says now, where that grew too far to be believed
    isolation = models.CharField(max_length=40, default="none")
    # Whether jobs of several queues may run on it where nothing keeps them apart; else it takes those of one queue.
    may_mix_queues = models.BooleanField(default=False)
    address = models.CharField(max_length=253, default="", blank=True)  # by which the other servers reach it
    agent_version = models.CharField(max_length=40, default="", blank=True)
    python = models.CharField(max_length=31, default="", blank=True)  # of environments; empty where it can build none
    # Key for the MAC of both directions, hex. Never shown, logged or serialized.
    key_hex = models.CharField(max_length=64)
    # The desired state of the server is at ``generation``; ``acked_generation`` is what its agent works on.
    generation = models.PositiveBigIntegerField(default=1)
    acked_generation = models.PositiveBigIntegerField(default=0)
    sent_sequence = models.PositiveBigIntegerField(default=0)
    # Newest report taken: (epoch, sequence) only rises.
    report_epoch = models.PositiveBigIntegerField(default=0)
    report_sequence = models.PositiveBigIntegerField(default=0)
    last_report_at = models.DateTimeField(null=True)
    rejected_reports = models.PositiveBigIntegerField(default=0)
    created_at = models.DateTimeField()
    # A removed server is kept for the history of jobs alone; it is lost, so that nothing counts its GPUs.
    removed_at = models.DateTimeField(null=True)

    objects = PresentServers()
    with_removed = models.Manager()

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(
                fields=["name"], condition=Q(removed_at__isnull=True), name="server_name_once_among_the_present"
            ),
            models.CheckConstraint(
                condition=Q(removed_at__isnull=True) | Q(state="lost"), name="server_removed_is_lost"
            ),
            models.CheckConstraint(condition=Q(state__in=ServerState.values), name="server_state_known"),
            models.CheckConstraint(
                condition=Q(acked_generation__lte=models.F("generation")), name="server_acks_only_what_was_decided"
            ),
        ]

    def __str__(self) -> str:
        return self.name

    @property
    def told_device_kind(self) -> str:
        """Return its device kind; empty before its first report, which says what it has."""
        return self.device_kind if self.last_report_at else ""

    @property
    def is_simulated(self) -> bool:
        """Return whether its agent reports to be simulated: nothing on it is computed."""
        return self.agent_version.startswith(SIMULATED)


class Gpu(models.Model):
    """One device of a server: a GPU, or a CPU slot where the machine has no GPU."""

    server = models.ForeignKey(Server, on_delete=models.CASCADE, related_name="gpus")
    index = models.PositiveSmallIntegerField()
    uuid = models.CharField(max_length=80)  # NVML UUID, or "cpu-slot-<index>"
    model = models.CharField(max_length=80, default="CPU slot")
    memory_bytes = models.PositiveBigIntegerField(default=0)
    healthy = models.BooleanField(default=True)
    health_reason = models.CharField(max_length=200, default="", blank=True)
    # Newest measured values; history is in Sample.
    utilization_frac = models.FloatField(null=True)
    used_memory_bytes = models.PositiveBigIntegerField(null=True)
    temperature_c = models.FloatField(null=True)
    measured_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["server_id", "index"]
        constraints = [
            models.UniqueConstraint(fields=["server", "index"], name="gpu_index_once"),
            models.UniqueConstraint(fields=["server", "uuid"], name="gpu_uuid_once"),
        ]

    def __str__(self) -> str:
        return f"{self.server_id}/{self.index}"


class Environment(models.Model):
    """A Python environment that jobs of one queue run in: the files that it is built from."""

    digest = models.CharField(primary_key=True, max_length=64)  # SHA-256 of queue, kind and files
    queue = models.ForeignKey("scheduler.Queue", on_delete=models.CASCADE, related_name="environments")
    kind = models.CharField(max_length=12)  # requirements | lock
    source = models.CharField(max_length=1024)  # path of its file, as the first job called it
    files = models.JSONField()  # text by name
    created_at = models.DateTimeField()
    used_at = models.DateTimeField(default=timezone.now)  # when a job with it was last submitted
    # Builds that failed since one succeeded, by faults that may pass: the more, the longer until the next.
    faults = models.PositiveSmallIntegerField(default=0)

    def __str__(self) -> str:
        return self.digest[:12]


class EnvironmentState(models.TextChoices):
    ASKED = "asked", "asked"  # wanted of the server, which has not said anything of it yet
    WAITING = "waiting", "waiting"  # for another build to end, or for room in the cache
    BUILDING = "building", "building"
    READY = "ready", "ready"  # jobs can start in it
    FAILED = "failed", "failed"  # it cannot be built there


class ServerEnvironment(models.Model):
    """How an environment stands on one server. Its number is that of the request."""

    environment = models.ForeignKey(Environment, on_delete=models.CASCADE, related_name="places")
    server = models.ForeignKey(Server, on_delete=models.CASCADE, related_name="environments")
    state = models.CharField(max_length=8, choices=EnvironmentState.choices, default=EnvironmentState.ASKED)
    is_wanted = models.BooleanField(default=True)  # a job waits for it, or runs in it: the server keeps it
    asked_at = models.DateTimeField()
    changed_at = models.DateTimeField()  # when it entered its state
    detail = models.CharField(max_length=300, default="", blank=True)
    is_passing = models.BooleanField(default=False)  # it failed, and its files are not to blame
    done = models.PositiveIntegerField(null=True)  # packages that are installed
    total = models.PositiveIntegerField(null=True)
    tail = models.TextField(default="", blank=True)  # the end of the build's log
    num_bytes = models.PositiveBigIntegerField(default=0)
    build_s = models.FloatField(default=0.0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["environment", "server"], name="environment_once_a_server"),
            models.CheckConstraint(
                condition=Q(state__in=EnvironmentState.values), name="server_environment_state_known"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.environment_id[:12]} on {self.server_id}"
