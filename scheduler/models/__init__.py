"""Data, constraints and indexes. No rule lives here; services write, selectors read."""

from scheduler.models.cluster import Cluster
from scheduler.models.event import Event, IdempotencyKey, Sample
from scheduler.models.experiment import Configuration, Experiment
from scheduler.models.gang import Gang, GangMember
from scheduler.models.job import Attempt, Job, Lease, LeaseGpu
from scheduler.models.profile import Measurement, Profile
from scheduler.models.queue import Membership, Queue
from scheduler.models.round import Round
from scheduler.models.scenario import Scenario, ScenarioRun, StartEstimate, TraceFile
from scheduler.models.server import Gpu, Server
from scheduler.models.token import ApiToken
from scheduler.models.trial import Trial

__all__ = [
    "ApiToken",
    "Attempt",
    "Cluster",
    "Configuration",
    "Event",
    "Experiment",
    "Gang",
    "GangMember",
    "Gpu",
    "IdempotencyKey",
    "Job",
    "Lease",
    "LeaseGpu",
    "Measurement",
    "Membership",
    "Profile",
    "Queue",
    "Round",
    "Sample",
    "Scenario",
    "ScenarioRun",
    "Server",
    "StartEstimate",
    "TraceFile",
    "Trial",
]
