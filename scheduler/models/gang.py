"""The processes of one attempt that train together, one per GPU or one per server, on one or more servers."""

from django.db import models
from django.db.models import Q

from scheduler.models.job import Attempt, Reported


class Gang(models.Model):
    """What the processes of an attempt share: the leader's address and the version of the membership."""

    attempt = models.OneToOneField(Attempt, on_delete=models.CASCADE, primary_key=True, related_name="gang")
    # Where the leader listens, as the other servers reach it.
    address = models.CharField(max_length=253)
    port = models.PositiveIntegerField()
    # The same while its attempt is open; the next gang that is opened takes it from ended ones.
    held_port = models.PositiveIntegerField(null=True, unique=True)
    # Of a gang of one process a server: [address, GPUs] of each, the leader's first. Empty: one process a GPU.
    hosts = models.JSONField(default=list)
    secret = models.CharField(max_length=32)  # known to its members alone
    # Version of the membership, raised with every change of the share; and the newest the leader switched to.
    version = models.PositiveIntegerField(default=0)
    done_version = models.PositiveIntegerField(null=True)

    def __str__(self) -> str:
        return f"gang of {self.attempt_id}"


class GangMember(Reported):
    """One process of a gang; its agent treats it as an attempt of its own."""

    # ULID, as an attempt's; that of the leader is the attempt's own.
    id = models.CharField(primary_key=True, max_length=26)
    gang = models.ForeignKey(Gang, on_delete=models.CASCADE, related_name="members")
    number = models.PositiveIntegerField()  # in the order of joining; ranks are places among those that stay
    # Of a process that has several GPUs, those of its lease: the first of them.
    gpu = models.ForeignKey("scheduler.Gpu", on_delete=models.PROTECT, related_name="+")
    version = models.PositiveIntegerField(default=0)  # of the membership that it was started for
    leaving = models.BooleanField(default=False)  # in no newer membership: it ends at a boundary

    class Meta:
        ordering = ["gang_id", "number"]
        constraints = [
            models.UniqueConstraint(fields=["gang", "number"], name="gang_member_number_once"),
            models.CheckConstraint(
                condition=(Q(ended_at__isnull=True) & Q(end_cause="")) | (Q(ended_at__isnull=False) & ~Q(end_cause="")),
                name="gang_member_ended_has_cause",
            ),
        ]

    def __str__(self) -> str:
        return f"member {self.number} of {self.gang_id}"
