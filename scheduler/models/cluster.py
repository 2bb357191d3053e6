"""The one row of the cluster: epoch, round counter, settings of the scheduler."""

from django.db import models
from django.db.models import Q

from scheduler.core.operations.start_calibration import LATE_FRAC


class Cluster(models.Model):
    """Singleton (pk 1). Every round moves ``round_number`` by a guarded update: that fences two schedulers."""

    id = models.PositiveSmallIntegerField(primary_key=True, default=1)
    # Raised when the database is restored, moved or reset, so that agents accept it again.
    epoch = models.PositiveBigIntegerField(default=1)
    round_number = models.PositiveBigIntegerField(default=0)
    round_finished_at = models.DateTimeField(null=True)
    again_at = models.DateTimeField(null=True)  # when introspection wants the next round at the latest
    next_job_number = models.PositiveBigIntegerField(default=1)
    # Settings of the scheduler; the round reads them once at its start.
    policy = models.CharField(max_length=40, default="las")
    policy_options = models.JSONField(default=dict, blank=True)
    locality = models.CharField(max_length=40, default="consolidate")
    locality_options = models.JSONField(default=dict, blank=True)
    mechanism = models.CharField(max_length=40, default="tune")
    mechanism_options = models.JSONField(default=dict, blank=True)
    introspection = models.JSONField(default=list, blank=True)  # names, in the order in which they act
    introspection_options = models.JSONField(default=dict, blank=True)  # {name: {option: value}}
    min_run_s = models.FloatField(default=0.0)  # the order of the policy does not stop a job that runs less long
    paused = models.BooleanField(default=False)
    smoke_run_s = models.FloatField(default=0.0)  # jobs of several GPUs run so long on one first; 0: they do not
    # What one user, one spec and one experiment may take; more is refused.
    user_most_queued = models.PositiveIntegerField(default=5_000)  # queued jobs
    spec_most_bytes = models.PositiveIntegerField(default=1280 * 1024)  # as stored, files included
    experiment_most_jobs = models.PositiveIntegerField(default=1_000)
    code_most_bytes = models.PositiveBigIntegerField(default=2 * 2**30)  # of one sent folder, unpacked
    code_most_files = models.PositiveIntegerField(default=50_000)
    # What a GPU-hour costs: of models without a price of their own (null: nothing), by model, and the currency.
    gpu_price = models.FloatField(null=True)
    gpu_prices = models.JSONField(default=dict, blank=True)
    price_currency = models.CharField(max_length=12, default="", blank=True)
    # Share of start estimates that may be late; adjusted by past errors.
    late_level = models.FloatField(default=LATE_FRAC)
    # Parts of the control plane that fail: {name: {"since": ISO time, "error": text, "by": whose note it is}}; see
    # ``scheduler/services/cluster/failing_steps.py``.
    failing_steps = models.JSONField(default=dict, blank=True)
    # Version of the settings, for ETag and If-Match.
    settings_version = models.PositiveBigIntegerField(default=1)

    class Meta:
        constraints = [models.CheckConstraint(condition=Q(id=1), name="cluster_is_single")]

    def __str__(self) -> str:
        return f"cluster, epoch {self.epoch}, round {self.round_number}"
