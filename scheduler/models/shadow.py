"""The shadow policy: a second configuration that plans every round without acting."""

from django.conf import settings
from django.db import models
from django.db.models import Q


class Shadow(models.Model):
    """Singleton (pk 1): the shadow configuration, or none."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    chosen = models.JSONField(default=dict, blank=True)  # fields of an arm of a what-if; empty: there is no shadow
    since = models.DateTimeField(null=True)
    chosen_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+")
    version = models.PositiveBigIntegerField(default=1)  # for ETag and If-Match

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="shadow_is_single")]

    def __str__(self) -> str:
        return f"shadow, version {self.version}"


class ShadowRound(models.Model):
    """What the shadow would have decided on the snapshot of one live round."""

    number = models.PositiveBigIntegerField(primary_key=True)  # of the live round
    version = models.PositiveBigIntegerField()  # of the shadow that plans it
    at = models.DateTimeField()
    snapshot = models.BinaryField(null=True)  # until it is planned
    planned_at = models.DateTimeField(null=True)
    took_s = models.FloatField(null=True)
    error = models.CharField(max_length=300, default="", blank=True)
    num_same = models.PositiveIntegerField(null=True)  # jobs that both let run with as many GPUs
    num_only_live = models.PositiveIntegerField(null=True)
    num_only_shadow = models.PositiveIntegerField(null=True)
    num_other_gpus = models.PositiveIntegerField(null=True)
    # {only_live: [[job number, gpus]], only_shadow: [...], other_gpus: [[job number, live, shadow]]}, cut short
    differences = models.JSONField(default=dict)

    class Meta:
        ordering = ["-number"]
        indexes = [
            models.Index(fields=["number"], condition=Q(planned_at__isnull=True), name="shadow_round_open"),  # worker
        ]

    def __str__(self) -> str:
        return f"shadow of round {self.number}"


class ShadowScore(models.Model):
    """Both configurations replayed on the jobs that ended since the shadow was chosen."""

    version = models.PositiveBigIntegerField()
    at = models.DateTimeField()
    since = models.DateTimeField()
    num_jobs = models.PositiveIntegerField()
    live = models.JSONField()  # {avg_jct_s, avg_rho, max_rho, avg_queueing_s}
    shadow = models.JSONField()

    class Meta:
        ordering = ["-id"]
        indexes = [models.Index(fields=["version", "-id"], name="shadow_score_by_version")]  # the chart

    def __str__(self) -> str:
        return f"shadow score at {self.at}"
