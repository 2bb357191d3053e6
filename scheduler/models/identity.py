"""Who a user is at an outside provider of sign-ins."""

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
