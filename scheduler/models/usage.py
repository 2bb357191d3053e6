"""How busy the GPUs were that users held, by the hour. What was allocated is counted from leases."""

from django.conf import settings
from django.db import models


class UsageHour(models.Model):
    """What was measured of the GPUs that one user's jobs in one queue held in one hour (UTC)."""

    hour = models.DateTimeField()
    queue = models.ForeignKey("scheduler.Queue", on_delete=models.CASCADE, related_name="usage_hours")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="usage_hours")
    measured_gpu_s = models.FloatField(default=0.0)  # GPU-seconds of which the utilization is known
    busy_gpu_s = models.FloatField(default=0.0)  # the same, each times its utilization

    class Meta:
        constraints = [models.UniqueConstraint(fields=["hour", "queue", "user"], name="usage_hour_once")]

    def __str__(self) -> str:
        return f"{self.user} in {self.queue} at {self.hour}"
