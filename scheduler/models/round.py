"""What each round decided, kept so that any past decision can be read and explained."""

from django.db import models


class Round(models.Model):
    """One decision. ``decisions`` holds grants, preemptions and waiting reasons by job number."""

    number = models.PositiveBigIntegerField(primary_key=True)
    epoch = models.PositiveBigIntegerField()
    trigger = models.CharField(max_length=40)  # beat, submit, end, server, settings, ...
    started_at = models.DateTimeField()
    duration_s = models.FloatField()
    policy = models.CharField(max_length=40)
    policy_options = models.JSONField(default=dict)
    locality = models.CharField(max_length=40)
    mechanism = models.CharField(max_length=40)
    num_jobs = models.PositiveIntegerField()
    num_running = models.PositiveIntegerField()  # granted after the round
    num_launched = models.PositiveIntegerField()
    num_preempted = models.PositiveIntegerField()
    num_waiting = models.PositiveIntegerField()
    num_gpus = models.PositiveIntegerField()
    num_gpus_granted = models.PositiveIntegerField()
    snapshot_hash = models.CharField(max_length=64)
    plan_hash = models.CharField(max_length=64)
    decisions = models.JSONField(default=dict)
    error = models.CharField(max_length=300, default="", blank=True)  # set when the plan was refused

    class Meta:
        ordering = ["-number"]
        indexes = [models.Index(fields=["-started_at"], name="round_by_time")]  # charts over a time range

    def __str__(self) -> str:
        return f"round {self.number}"
