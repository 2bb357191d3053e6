"""Webhooks, mail choices of users, and every delivery to either."""

from django.conf import settings
from django.db import models
from django.db.models import Q


class Webhook(models.Model):
    """An address that gets the chosen events of one queue and those below it, or of the whole cluster.

    Its secret is derived from ``nonce`` and the key of the installation: a copy of the database does not reveal it.
    """

    name = models.CharField(max_length=80)
    queue = models.ForeignKey("scheduler.Queue", null=True, on_delete=models.CASCADE, related_name="webhooks")
    url = models.CharField(max_length=500)
    notices = models.JSONField()  # names of ``scheduler.selectors.accounts.notices.NOTICES``
    nonce = models.CharField(max_length=43)
    created_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.PROTECT, related_name="webhooks")
    created_at = models.DateTimeField()
    revoked_at = models.DateTimeField(null=True)
    first_event = models.PositiveBigIntegerField()  # it gets events after this one

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.name


class MailChoice(models.Model):
    """Which events of the own jobs one user gets by mail."""

    user = models.OneToOneField(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="mail_choice")
    notices = models.JSONField()  # as in Webhook
    first_event = models.PositiveBigIntegerField()

    def __str__(self) -> str:
        return f"mail to {self.user}"


class DeliveryState(models.TextChoices):
    WAITING = "waiting", "waiting"  # to be tried at ``next_at``
    DELIVERED = "delivered", "delivered"  # the other side took it
    FAILED = "failed", "failed"  # given up


class Delivery(models.Model):
    """One message to one receiver, with its result."""

    webhook = models.ForeignKey(Webhook, null=True, on_delete=models.CASCADE, related_name="deliveries")
    mail = models.ForeignKey(MailChoice, null=True, on_delete=models.CASCADE, related_name="deliveries")
    event = models.ForeignKey("scheduler.Event", null=True, on_delete=models.CASCADE, related_name="deliveries")
    notice = models.CharField(max_length=24)  # name of the notice; "test" has no event
    body = models.TextField()  # JSON as it is sent
    state = models.CharField(max_length=10, choices=DeliveryState.choices, default=DeliveryState.WAITING)
    tries = models.PositiveSmallIntegerField(default=0)
    next_at = models.DateTimeField(null=True)  # exactly while it waits
    status = models.PositiveSmallIntegerField(null=True)  # of the newest answer
    problem = models.CharField(max_length=200, default="", blank=True)  # why the newest try failed
    took_s = models.FloatField(null=True)  # the newest try
    created_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["webhook", "event"], name="delivery_once_a_webhook"),
            models.UniqueConstraint(fields=["mail", "event"], name="delivery_once_a_mail"),
            models.CheckConstraint(
                condition=Q(webhook__isnull=True, mail__isnull=False) | Q(webhook__isnull=False, mail__isnull=True),
                name="delivery_has_one_receiver",
            ),
            models.CheckConstraint(
                condition=Q(state=DeliveryState.WAITING, next_at__isnull=False)
                | ~Q(state=DeliveryState.WAITING) & Q(next_at__isnull=True),
                name="delivery_next_try_exactly_while_waiting",
            ),
        ]
        indexes = [
            models.Index(fields=["next_at"], condition=Q(next_at__isnull=False), name="delivery_due"),  # the sender
            models.Index(fields=["webhook", "-id"], name="delivery_by_webhook"),  # the log
            models.Index(fields=["created_at"], name="delivery_by_age"),  # old ones are removed
        ]

    def __str__(self) -> str:
        return f"{self.notice} {self.state}"
