"""Accounts beside the users themselves: sign-ins at outside providers, and tokens for the REST API."""

from django.conf import settings
from django.db import models


class Identity(models.Model):
    """One account at one OpenID Connect provider. Names and addresses may change hands there; this pair may not."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="identities")
    issuer = models.CharField(max_length=255)
    subject = models.CharField(max_length=255)
    created_at = models.DateTimeField()
    last_used_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["issuer", "subject"], name="identity_once")]

    def __str__(self) -> str:
        return f"{self.subject} at {self.issuer}"


class ApiToken(models.Model):
    """A token for the REST API. Only its hash is stored; the token itself is shown once."""

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


class WallLink(models.Model):
    """A link that opens the wall on a screen without a sign-in. Only its hash is stored.

    The screen reads what its maker may read, without people; it goes dark when the link is revoked or its maker is no
    longer an active admin.
    """

    name = models.CharField(max_length=80)
    sha256 = models.CharField(max_length=64, unique=True)
    shows_names = models.BooleanField(default=False)  # of jobs; else "a job of <queue>"
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="wall_links")
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    last_used_at = models.DateTimeField(null=True)

    def __str__(self) -> str:
        return f"wall {self.name}"
