"""Data, constraints and indexes. No rule lives here; services write, selectors read."""

from scheduler.models.account import ApiToken, Identity, WallLink
from scheduler.models.cluster import Cluster
from scheduler.models.code import CodeBlob, CodeFolder, CodeGit, CodeSent
from scheduler.models.event import Event, IdempotencyKey, JobDay, Sample, UsageHour
from scheduler.models.experiment import Configuration, Experiment
from scheduler.models.gang import Gang, GangMember
from scheduler.models.job import Attempt, Job, Lease, LeaseGpu, WrittenLoss
from scheduler.models.profile import Measurement, Profile
from scheduler.models.queue import Membership, Queue, QueueBudget, QuotaRequest
from scheduler.models.round import Round, Trial
from scheduler.models.saved import SavedView, SpecTemplate
from scheduler.models.scenario import Scenario, ScenarioRun, StartEstimate, TraceFile
from scheduler.models.secret import Secret
from scheduler.models.server import Environment, Gpu, Server, ServerEnvironment
from scheduler.models.shadow import Shadow, ShadowRound, ShadowScore
from scheduler.models.webhook import Delivery, MailChoice, Webhook

__all__ = [
    "ApiToken",
    "Attempt",
    "Cluster",
    "CodeBlob",
    "CodeFolder",
    "CodeGit",
    "CodeSent",
    "Configuration",
    "Delivery",
    "Environment",
    "Event",
    "Experiment",
    "Gang",
    "GangMember",
    "Gpu",
    "IdempotencyKey",
    "Identity",
    "Job",
    "JobDay",
    "Lease",
    "LeaseGpu",
    "MailChoice",
    "Measurement",
    "Membership",
    "Profile",
    "Queue",
    "QueueBudget",
    "QuotaRequest",
    "Round",
    "Sample",
    "SavedView",
    "Scenario",
    "ScenarioRun",
    "Secret",
    "Server",
    "ServerEnvironment",
    "Shadow",
    "ShadowRound",
    "ShadowScore",
    "SpecTemplate",
    "StartEstimate",
    "TraceFile",
    "Trial",
    "UsageHour",
    "WallLink",
    "Webhook",
    "WrittenLoss",
]
