"""Measured speed of jobs by cores, memory and GPU count."""

from typing import TypedDict

from django.db import models


class ProfileEvidence(TypedDict, total=False):
    """``Profile.evidence``: what the newest measurement saw; empty before the first one."""

    num_gpus: int
    server: str  # its name
    share_cpus: float  # the GPU-proportional share of that server
    share_memory_bytes: float
    peak_memory_bytes: int  # of all attempts
    has_ended: bool  # whether an attempt completed, so that the peak is known
    # As told by the agent, see ``agents.protocol.profile.Measured``:
    free_cores: int
    took_s: float
    error: float
    model_bytes: int
    largest_tensor_bytes: int
    dataset_bytes: float
    read_bytes_per_step: float
    disk_bytes_per_s: float
    memory_bytes_per_s: float
    cache_bytes: int


class Profile(models.Model):
    """Sensitivity of one model, keyed by fingerprint, so that a second job of the model need not be measured again."""

    fingerprint = models.CharField(max_length=80, unique=True)  # spec field ``profile``, or a hash of the command
    model = models.CharField(max_length=80, default="", blank=True)
    # Axes of the sensitivity matrix, per GPU; relative speed 1 at the GPU-proportional share. Empty: not measured yet.
    cpus_per_gpu = models.JSONField(default=list)  # (a,) ascending cores
    memory_bytes_per_gpu = models.JSONField(default=list)  # (b,) ascending bytes
    relative_speed = models.JSONField(default=list)  # (a, b) rows follow cpus_per_gpu
    scaling = models.JSONField(default=list)  # [[gpus, speed relative to one GPU], ...]
    spread = models.JSONField(default=list)  # [[gpus on each server, speed relative to one server], ...]
    skew = models.FloatField(null=True)  # largest tensor / model size
    source = models.CharField(max_length=40, default="measured")  # measured, published, given
    measured_at = models.DateTimeField(null=True)
    cost_s = models.FloatField(default=0.0)  # seconds of a server that all its measurements took
    # What the matrix was made of: [[cores per GPU, steps a second], ...], and what else was measured.
    rates = models.JSONField(default=list)
    evidence = models.JSONField(default=dict)  # ProfileEvidence
    # Rates of running jobs: [[gpus, servers, cores per GPU, steps a second, attempts], ...]
    live_rates = models.JSONField(default=list)
    measured_cpus = models.PositiveIntegerField(default=0)  # most cores of a job at which it was measured
    measure_again = models.BooleanField(default=False)  # an admin asked for it

    def __str__(self) -> str:
        return self.fingerprint


class Measurement(models.Model):
    """The measurement of one attempt while it trains."""

    attempt = models.OneToOneField("scheduler.Attempt", on_delete=models.CASCADE, related_name="measurement")
    profile = models.ForeignKey(Profile, on_delete=models.CASCADE, related_name="measurements")
    above_cpus = models.PositiveIntegerField(default=0)  # measured only where it can use more cores than this
    measured_at = models.DateTimeField(null=True)
    took_s = models.FloatField(null=True)  # how long it trained with other cores than it was granted

    def __str__(self) -> str:
        return f"{self.attempt_id} of {self.profile_id}"
