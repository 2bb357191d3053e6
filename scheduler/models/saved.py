"""Spec templates of queues, and saved views of the job list of users."""

from django.conf import settings
from django.db import models


class SpecTemplate(models.Model):
    """Part of a spec from which members of a queue start."""

    queue = models.ForeignKey("scheduler.Queue", on_delete=models.CASCADE, related_name="templates")
    name = models.CharField(max_length=80)
    spec = models.JSONField()  # a spec without its queue; anything may be missing
    owner = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["queue__name", "name"]
        constraints = [models.UniqueConstraint(fields=["queue", "name"], name="template_once_in_queue")]

    def __str__(self) -> str:
        return self.name


class SavedView(models.Model):
    """Named filters of the job list of one user."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    name = models.CharField(max_length=60)
    query = models.CharField(max_length=500)  # query string of the job list
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]
        constraints = [models.UniqueConstraint(fields=["user", "name"], name="view_once_by_user")]

    def __str__(self) -> str:
        return self.name
