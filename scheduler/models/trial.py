"""What introspection remembers from round to round, and what became of all that it tried."""

from django.db import models
from django.db.models import Q

from scheduler.core.model.trial import TrialKind, Verdict


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
