"""Past rounds with their decisions, and the trials of introspection that the next round must know."""

from django.db import models
from django.db.models import Q

from scheduler.core.model.trial import TrialKind, Verdict


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


class Trial(models.Model):
    """One change tried on running jobs, or one note; see ``scheduler.core.model.trial``.

    Rows with a ``place`` are the memory that the next round finds, in that order. Changes that are over stay as
    history, notes do not.
    """

    kind = models.CharField(max_length=10, choices=[(kind.value, kind.value) for kind in TrialKind])
    jobs = models.JSONField(default=list)  # job numbers; host and guest of a pack
    servers = models.JSONField(default=list)  # server numbers
    values = models.JSONField(default=list)  # rates before, and what else the kind needs; text where not finite
    began_s = models.FloatField()  # POSIX time
    until_s = models.FloatField()  # POSIX time; either infinity for never and at once
    verdict = models.CharField(max_length=10, choices=[(verdict.value, verdict.value) for verdict in Verdict])
    rates_after = models.JSONField(default=list)  # mini-batches a second at the newest verdict, by job; null unknown
    place = models.PositiveIntegerField(null=True)  # in the memory; null when forgotten
    ended_at = models.DateTimeField(null=True)  # when it was forgotten

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["place"], condition=Q(place__isnull=False), name="trial_remembered"),  # snapshot
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.jobs}: {self.verdict}"
