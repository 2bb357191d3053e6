"""Past rounds with their decisions, and the trials of introspection that the next round must know."""

from typing import NotRequired, TypedDict

from django.db import models
from django.db.models import Q

from scheduler.core.model.plan import Evidence
from scheduler.core.model.trial import TrialKind, Verdict


class DecidedSeat(TypedDict):
    """What a grant gives on one server."""

    server: int  # its number
    gpus: int
    cpus: float
    memory_bytes: int


class DecidedGrant(TypedDict):
    """One job that has GPUs after a round, or would have when they are free."""

    job: int  # its number, here and below
    state: str  # kept, resized, launched, continued, reconfiguring or skipped
    seats: list[DecidedSeat]
    riding: NotRequired[int]  # job that it is packed beside


class DecidedPreemption(TypedDict):
    """One job that a round stopped, with the rule and its numbers."""

    job: int
    rule: str
    by_job: int | None
    evidence: Evidence
    parks: NotRequired[bool]  # it keeps its memory and continues in place


class DecidedWait(TypedDict):
    """One job that waits, and why."""

    job: int
    position: int | None
    reason: str
    evidence: Evidence


class TriedChange(TypedDict):
    """One change that introspection tried, judged or forgot; also the data of an event of each of its jobs."""

    kind: str
    jobs: list[int]
    servers: list[str]  # names
    verdict: str
    rates_before: list[float | None]  # mini-batches a second
    rates_after: list[float | None]
    gain: float | None


class Decisions(TypedDict, total=False):
    """``Round.decisions``: what a round decided, or the number of the earlier round that decided the same."""

    grants: list[DecidedGrant]
    preemptions: list[DecidedPreemption]
    waiting: list[DecidedWait]  # the first in the order of the policy
    waiting_by_reason: dict[str, int]  # all of them
    keys: list[list[float | str]]  # [job, key], the first in the order of the policy; text where not finite
    trials: list[TriedChange]
    same_as: int


class Round(models.Model):
    """One decision."""

    number = models.PositiveBigIntegerField(primary_key=True)
    epoch = models.PositiveBigIntegerField()
    trigger = models.CharField(max_length=40)  # beat, submit, end, server, settings, ...
    started_at = models.DateTimeField()
    duration_s = models.FloatField()
    policy = models.CharField(max_length=40)
    policy_options = models.JSONField(default=dict)
    locality = models.CharField(max_length=40)
    mechanism = models.CharField(max_length=40)
    num_jobs = models.PositiveIntegerField()
    num_running = models.PositiveIntegerField()  # granted after the round
    num_launched = models.PositiveIntegerField()
    num_preempted = models.PositiveIntegerField()
    num_waiting = models.PositiveIntegerField()
    num_gpus = models.PositiveIntegerField()
    num_gpus_granted = models.PositiveIntegerField()
    snapshot_hash = models.CharField(max_length=64)
    plan_hash = models.CharField(max_length=64)
    decisions = models.JSONField(default=dict)  # Decisions
    error = models.CharField(max_length=300, default="", blank=True)  # set when the plan was refused

    class Meta:
        ordering = ["-number"]
        indexes = [models.Index(fields=["-started_at"], name="round_by_time")]  # charts over a time range

    def __str__(self) -> str:
        return f"round {self.number}"


class Trial(models.Model):
    """One change tried on running jobs, or one note; see ``scheduler.core.model.trial``.

    Rows with a ``place`` are the memory that the next round finds, in that order. Changes that are over stay as
    history, notes do not.
    """

    kind = models.CharField(max_length=10, choices=[(kind.value, kind.value) for kind in TrialKind])
    jobs = models.JSONField(default=list)  # job numbers; host and guest of a pack
    servers = models.JSONField(default=list)  # server numbers
    values = models.JSONField(default=list)  # rates before, and what else the kind needs; text where not finite
    began_s = models.FloatField()  # POSIX time
    until_s = models.FloatField()  # POSIX time; either infinity for never and at once
    verdict = models.CharField(max_length=10, choices=[(verdict.value, verdict.value) for verdict in Verdict])
    rates_after = models.JSONField(default=list)  # mini-batches a second at the newest verdict, by job; null unknown
    place = models.PositiveIntegerField(null=True)  # in the memory; null when forgotten
    ended_at = models.DateTimeField(null=True)  # when it was forgotten

    class Meta:
        ordering = ["-id"]
        indexes = [
            models.Index(fields=["place"], condition=Q(place__isnull=False), name="trial_remembered"),  # snapshot
        ]

    def __str__(self) -> str:
        return f"{self.kind} of {self.jobs}: {self.verdict}"
