"""Measured speed of a kind of job: how it reacts to cores, memory and GPU count."""

from django.db import models


class Profile(models.Model):
    """Sensitivity of one model, keyed by fingerprint, so that a second job of the model need not be measured again."""

    fingerprint = models.CharField(max_length=80, unique=True)  # spec field ``profile``, or a hash of the command
    model = models.CharField(max_length=80, default="", blank=True)
    # Axes of the sensitivity matrix, per GPU; relative speed 1 at the GPU-proportional share.
    cpus_per_gpu = models.JSONField(default=list)  # (a,) ascending cores
    memory_bytes_per_gpu = models.JSONField(default=list)  # (b,) ascending bytes
    relative_speed = models.JSONField(default=list)  # (a, b) rows follow cpus_per_gpu
    scaling = models.JSONField(default=list)  # [[gpus, speed relative to one GPU], ...]
    skew = models.FloatField(null=True)  # largest tensor / model size
    source = models.CharField(max_length=40, default="measured")  # measured, published, given
    measured_at = models.DateTimeField(null=True)
    cost_s = models.FloatField(default=0.0)  # seconds of a server that the measurement took

    def __str__(self) -> str:
        return self.fingerprint
