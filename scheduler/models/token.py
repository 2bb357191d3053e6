"""Tokens for the REST API. Only a hash is stored; the token itself is shown once."""

from django.conf import settings
from django.db import models


class ApiToken(models.Model):
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="api_tokens")
    name = models.CharField(max_length=80)
    prefix = models.CharField(max_length=12)  # first letters, so that its owner can tell tokens apart
    sha256 = models.CharField(max_length=64, unique=True)
    scopes = models.JSONField(default=list)  # "jobs:read", "jobs:write", "queues:admin", "admin"
    created_at = models.DateTimeField()
    expires_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"{self.prefix}... of {self.user}"
