"""Shapes of the overview, the feed and the caller in the OpenAPI document."""

from rest_framework import serializers

from scheduler.api.cluster.server_documents import KINDS, STATES, ServerRow
from scheduler.api.http.documents import Moments, NamedJob, Numbers, Shape, moment, real, role, text, whole, word, yes
from scheduler.api.http.pagination import PageFields
from scheduler.api.jobs.history_documents import EventDocument


class GpuNow(Shape):
    """One GPU without its holder."""

    index = whole()
    healthy = yes()
    allocated = yes()
    utilization_frac = real(null=True)


class ServerNow(Shape):
    """One server without its holders."""

    id = text()
    name = text()
    state = word(STATES)
    device_kind = word(KINDS)
    simulated = yes("It has no machine: nothing on it is computed.")
    gpus = GpuNow(many=True)


class ClusterNow(Shape):
    """What everybody may see; the frame of kind `cluster` on the WebSocket has the same shape."""

    at = moment(null=False)
    round = whole()
    round_finished_at = moment()
    next_round_at = moment()
    paused = yes()
    policy = text()
    locality = text()
    mechanism = text()
    num_gpus = whole()
    busy_gpus = whole("Held and used.")
    allocated_gpus = whole("Held.")
    free_gpus = whole()
    broken_gpus = whole("Not healthy, or on a server that is lost or has not joined.")
    waiting_jobs = whole()
    running_jobs = whole()
    servers = ServerNow(many=True)


class ClusterSeries(Shape):
    """The cluster over time, as lists of one length."""

    at = Moments()
    num_gpus = Numbers()
    busy_gpus = Numbers()
    allocated_gpus = Numbers()
    broken_gpus = Numbers()
    waiting_jobs = Numbers()
    running_jobs = Numbers()


class QueueShare(Shape):
    """What a queue holds; the last may be "other queues", with id null."""

    id = text(null=True)
    name = text()
    color_slot = whole()
    held_gpus = whole()
    quota_gpus = whole()
    borrowed_gpus = whole()
    waiting_jobs = whole()
    running_jobs = whole()


class CompletionDocument(Shape):
    """Completion and waiting times of jobs that you may see; null when none completed."""

    since = moment(null=False)
    count = whole()
    mean_s = real(null=True)
    p50_s = real(null=True)
    p90_s = real(null=True)
    p99_s = real(null=True)
    wait_p50_s = real(null=True)
    wait_p90_s = real(null=True)
    jct_s = serializers.ListField(child=serializers.FloatField(), help_text="All completion times, sorted.")
    wait_s = serializers.ListField(child=serializers.FloatField(), help_text="All waiting times, sorted.")


class RatedJob(NamedJob):
    """Finish-time fairness of one job."""

    color_slot = whole()
    num_gpus = whole()
    is_finished = yes()
    rho = real("Above 1 the job is worse off than alone on an equal share.")


class FairnessDocument(Shape):
    """Finish-time fairness of jobs that you may see."""

    jobs = RatedJob(many=True)
    jain_index = real("Over queues; 1 when all are equally well off.", null=True)


class OverviewDocument(Shape):
    """One picture of the cluster; with `only`, parts of it."""

    cluster = ClusterNow(required=False)
    series = ClusterSeries(required=False)
    queues = QueueShare(many=True, required=False)
    servers = ServerRow(many=True, required=False)
    completion = CompletionDocument(required=False)
    fairness = FairnessDocument(required=False)
    events = EventDocument(many=True, required=False)


class EventList(PageFields):
    """The newest events."""

    results = EventDocument(many=True)


class MyQueue(Shape):
    """A queue of yours."""

    name = text()
    role = role()


class MeDocument(Shape):
    """Who you are here."""

    id = text()
    username = text()
    is_admin = yes()
    queues = MyQueue(many=True)
    scopes = serializers.ListField(
        child=serializers.CharField(), allow_null=True, help_text="Of the token; null with a session, which may do all."
    )
    token_expires_at = moment()
