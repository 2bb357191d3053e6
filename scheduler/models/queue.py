"""Queues (virtual clusters of teams) and the roles of users in them."""

from django.conf import settings
from django.core.validators import MinValueValidator
from django.db import models
from django.db.models import F, Q

from agents.protocol.isolation import LEVELS, NONE
from scheduler.core.operations.idle import IdleAction

IDLE_ACTIONS = [(action.value, action.value) for action in IdleAction]


class Queue(models.Model):
    """A node in the tree of queues. Jobs are submitted to leaves."""

    # Full path, such as "vision/detection": unique, used in specs, REST and pages.
    name = models.CharField(max_length=120, unique=True)
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="children")
    quota_gpus = models.PositiveIntegerField(default=0)
    max_gpus = models.PositiveIntegerField(null=True)  # null: no limit but the cluster
    weight = models.FloatField(default=1.0, validators=[MinValueValidator(0.01)])
    may_borrow = models.BooleanField(default=True)
    # Of each user in this queue itself; null: no limit.
    user_max_gpus = models.PositiveIntegerField(null=True)  # held at once
    user_max_queued = models.PositiveIntegerField(null=True)  # queued jobs; more are refused
    # Idle GPUs for so long are reported; null: never. The action follows after a grace time.
    idle_after_s = models.PositiveIntegerField(null=True, default=3600)
    idle_action = models.CharField(max_length=10, choices=IDLE_ACTIONS, default=IdleAction.TELL)
    # How far apart a server must keep jobs for those of the queue, and of all below it, to start there.
    isolation = models.CharField(max_length=10, choices=[(level, level) for level in LEVELS], default=NONE)
    # Days after the end of a job for which its directory is kept.
    keep_directories_days = models.PositiveIntegerField(default=30)
    # Beyond these the oldest directories of ended jobs go before their time; null: no limit.
    directories_most_bytes = models.PositiveBigIntegerField(null=True)
    user_directories_most_bytes = models.PositiveBigIntegerField(null=True)
    # Colour slot 1 to 8, given at creation and kept for ever (visual language).
    color_slot = models.PositiveSmallIntegerField(default=1)
    version = models.PositiveBigIntegerField(default=1)  # for ETag and If-Match
    created_at = models.DateTimeField()

    class Meta:
        ordering = ["name"]
        constraints = [
            models.CheckConstraint(condition=Q(weight__gt=0), name="queue_weight_positive"),
            models.CheckConstraint(
                condition=Q(max_gpus__isnull=True) | Q(max_gpus__gte=F("quota_gpus")), name="queue_max_covers_quota"
            ),
            models.CheckConstraint(condition=~Q(parent=F("id")), name="queue_not_own_parent"),
            models.CheckConstraint(
                condition=Q(idle_action__in=[action.value for action in IdleAction]), name="queue_idle_action_known"
            ),
            models.CheckConstraint(condition=Q(isolation__in=LEVELS), name="queue_isolation_known"),
        ]

    def __str__(self) -> str:
        return self.name


class Role(models.TextChoices):
    """Role in a queue; it holds in the whole subtree below. Admins are superusers and need none."""

    VIEWER = "viewer", "viewer"  # sees jobs
    MEMBER = "member", "member"  # and submits, and cancels own jobs
    LEAD = "lead", "lead"  # and cancels all jobs, sets limits, manages members


class Membership(models.Model):
    """The role of one user in one queue and all queues below it."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")
    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="memberships")
    role = models.CharField(max_length=10, choices=Role.choices)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["user", "queue"], name="membership_once"),
            models.CheckConstraint(condition=Q(role__in=Role.values), name="membership_role_known"),
        ]

    def __str__(self) -> str:
        return f"{self.user} is {self.role} of {self.queue}"


class RequestState(models.TextChoices):
    """State of a request for quota."""

    OPEN = "open", "open"  # waits for an answer
    GRANTED = "granted", "granted"  # the quota was changed for it
    REFUSED = "refused", "refused"
    WITHDRAWN = "withdrawn", "withdrawn"  # by the user who asked


class QuotaRequest(models.Model):
    """A request for another quota of one queue, and its answer."""

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="quota_requests")
    asked_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="quota_requests")
    asked_at = models.DateTimeField()
    quota_gpus = models.PositiveIntegerField()  # the whole quota that is asked for
    until = models.DateField(null=True)  # last day on which it is needed; null: for good
    reason = models.CharField(max_length=500)
    state = models.CharField(max_length=10, choices=RequestState.choices, default=RequestState.OPEN)
    before_gpus = models.PositiveIntegerField()  # the quota when it was asked; when granted, the one it replaced
    given_gpus = models.PositiveIntegerField(null=True)  # exactly when granted: may differ from what was asked
    answered_at = models.DateTimeField(null=True)
    answered_by = models.CharField(max_length=150, default="", blank=True)  # user name
    answer = models.CharField(max_length=500, default="", blank=True)  # in words
    # The request that took its place when it was changed; that one is newer.
    replaced_by = models.OneToOneField("self", null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.CheckConstraint(condition=Q(state__in=RequestState.values), name="quota_request_state_known"),
            models.CheckConstraint(
                condition=Q(replaced_by__isnull=True) | Q(state=RequestState.WITHDRAWN),
                name="quota_request_replaced_is_withdrawn",
            ),
            models.CheckConstraint(
                condition=Q(state=RequestState.OPEN, answered_at__isnull=True)
                | ~Q(state=RequestState.OPEN) & Q(answered_at__isnull=False),
                name="quota_request_answered_unless_open",
            ),
            models.CheckConstraint(
                condition=Q(state=RequestState.GRANTED, given_gpus__isnull=False)
                | ~Q(state=RequestState.GRANTED) & Q(given_gpus__isnull=True),
                name="quota_request_given_when_granted",
            ),
            models.UniqueConstraint(
                fields=["queue", "asked_by"],
                condition=Q(state=RequestState.OPEN),
                name="quota_request_open_once_a_user",
            ),
        ]
        indexes = [
            models.Index(fields=["queue", "-id"], name="quota_request_by_queue"),  # list of a queue
            models.Index(fields=["state", "-id"], name="quota_request_by_state"),  # the inbox
        ]

    def __str__(self) -> str:
        return f"{self.asked_by} asks for {self.quota_gpus} GPUs of {self.queue}"


class QueueBudget(models.Model):
    """What a queue with all below it may cost in a month, from that month (UTC) on until a later row says otherwise."""

    queue = models.ForeignKey(Queue, on_delete=models.CASCADE, related_name="budgets")
    month = models.DateField()  # its first day
    amount = models.FloatField(null=True)  # in the currency of the prices; null: no budget

    class Meta:
        ordering = ["queue_id", "month"]
        constraints = [
            models.UniqueConstraint(fields=["queue", "month"], name="queue_budget_once_a_month"),
            models.CheckConstraint(
                condition=Q(amount__isnull=True) | Q(amount__gte=0), name="queue_budget_not_negative"
            ),
        ]

    def __str__(self) -> str:
        return f"{self.amount} for {self.queue} from {self.month}"
