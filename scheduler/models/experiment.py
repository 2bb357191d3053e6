"""Experiments: searches over configurations of one job, run together."""

from django.conf import settings
from django.db import models
from django.db.models import Q

from scheduler.core.operations.multijob import Promise


class ExperimentState(models.TextChoices):
    RUNNING = "running", "running"  # its configurations train, or wait for their turn
    FOUND = "found", "found"  # one reached the target
    EXHAUSTED = "exhausted", "exhausted"  # all have ended and none did
    DONE = "done", "done"  # all have ended; there was no target
    CANCELLED = "cancelled", "cancelled"  # ended by a user


class Experiment(models.Model):
    """A set of jobs searched together."""

    id = models.CharField(primary_key=True, max_length=26)  # ULID
    name = models.CharField(max_length=80)
    queue = models.ForeignKey("scheduler.Queue", on_delete=models.PROTECT, related_name="experiments")
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="experiments")
    spec = models.JSONField()  # of every job, with ``{name}`` where a parameter goes
    space = models.JSONField()  # see core/spec/search_space.py
    sampler = models.CharField(max_length=10)
    seed = models.PositiveIntegerField(default=0)
    size = models.PositiveIntegerField()  # configurations in all
    # Of a search for a target; null where all configurations run to their end.
    total_steps = models.PositiveBigIntegerField(null=True)  # of one configuration, begin to end
    feedback_steps = models.PositiveBigIntegerField(null=True)  # looked at after this many, then twice as many, ...
    target_loss = models.FloatField(null=True)
    state = models.CharField(max_length=10, choices=ExperimentState.choices, default=ExperimentState.RUNNING)
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=ExperimentState.values), name="experiment_state_known"),
            models.CheckConstraint(
                condition=Q(feedback_steps__gte=1, total_steps__gt=models.F("feedback_steps")),
                name="experiment_gives_feedback_early",
            ),
        ]

    def __str__(self) -> str:
        return f"experiment {self.name}"


class Configuration(models.Model):
    """One configuration of an experiment, with its loss curve and rating."""

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="configurations")
    number = models.PositiveIntegerField()  # 1, 2, 3 ... in the order of submission
    job = models.OneToOneField("scheduler.Job", on_delete=models.CASCADE, related_name="configuration")
    values = models.JSONField()
    curve = models.JSONField(default=list)  # [[step, loss], ...], about five before the first look
    looked_step = models.PositiveBigIntegerField(default=0)  # step of the newest look
    chance = models.FloatField(null=True)  # of reaching the target; null before the first look
    heading_for = models.FloatField(null=True)  # loss at the end, by the fitted curve
    promise = models.CharField(
        max_length=13, choices=[(one.value, one.value) for one in Promise], default=Promise.OPPORTUNISTIC
    )

    class Meta:
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["experiment", "number"], name="configuration_number_once")]

    def __str__(self) -> str:
        return f"{self.experiment_id} {self.number}"
