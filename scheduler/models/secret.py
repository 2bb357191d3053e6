"""Secrets of users and queues: values that jobs get and no reader does."""

from django.conf import settings
from django.db import models
from django.db.models import Q


class Secret(models.Model):
    """A secret of one user, or of one queue; its value only as ciphertext, see ``services/secrets/crypt.py``."""

    name = models.CharField(max_length=63)
    user = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.CASCADE, related_name="secrets")
    queue = models.ForeignKey("scheduler.Queue", null=True, on_delete=models.CASCADE, related_name="secrets")
    sealed = models.TextField()
    created_at = models.DateTimeField()
    created_by = models.CharField(max_length=150)  # user name
    changed_at = models.DateTimeField()
    changed_by = models.CharField(max_length=150)
    last_used_at = models.DateTimeField(null=True)
    last_used_by = models.ForeignKey("scheduler.Job", null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(
                condition=Q(user__isnull=True) ^ Q(queue__isnull=True), name="secret_of_a_user_or_a_queue"
            ),
            models.UniqueConstraint(fields=["user", "name"], name="secret_once_a_user"),
            models.UniqueConstraint(fields=["queue", "name"], name="secret_once_a_queue"),
        ]

    def __str__(self) -> str:
        return self.name
