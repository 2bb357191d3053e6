"""Documents of the overview, the feed and the caller in the OpenAPI document. Nothing here runs in a request."""

from rest_framework import serializers

from scheduler.api.cluster.server_documents import ServerRowDocument
from scheduler.api.http.documents import Shape, document_of, page_of, series_of
from scheduler.api.jobs.history_documents import EventDocument
from scheduler.selectors.accounts.rows import MeRow, QueueRole
from scheduler.selectors.cluster.alerts import AlertRow
from scheduler.selectors.cluster.next_free import GpuEndRow, NextFreeRow
from scheduler.selectors.cluster.overview import CLUSTER_VALUES
from scheduler.selectors.cluster.rows import (
    ClusterFrame,
    CompletionTimes,
    Fairness,
    GpuFrame,
    QueueShareRow,
    RatedJob,
    ServerFrame,
)
from scheduler.selectors.rows import ShownJob

ServerNow = document_of(ServerFrame, "ServerNow", gpus=document_of(GpuFrame, "GpuNow"))
ClusterNow = document_of(ClusterFrame, "ClusterNow", servers=ServerNow)
QueueShare = document_of(QueueShareRow, "QueueShare", id=serializers.CharField)
CompletionDocument = document_of(CompletionTimes, "CompletionDocument")
FairnessDocument = document_of(Fairness, "FairnessDocument", jobs=document_of(RatedJob))
ClusterSeries = series_of(CLUSTER_VALUES, "ClusterSeries", "The cluster over time, as lists of one length.")


class OverviewDocument(Shape):
    """One picture of the cluster; with `only`, parts of it."""

    cluster = ClusterNow(required=False)
    series = ClusterSeries(required=False)
    queues = QueueShare(many=True, required=False)
    servers = ServerRowDocument(many=True, required=False)
    completion = CompletionDocument(required=False)
    fairness = FairnessDocument(required=False)
    events = EventDocument(many=True, required=False)


AlertList = page_of(document_of(AlertRow), "AlertList", "What needs an admin.")
LastJob = document_of(ShownJob, "LastJob")
NextFreeList = page_of(
    document_of(NextFreeRow, last_job=LastJob, ends=document_of(GpuEndRow, job=LastJob)),
    "NextFreeList",
    "When servers are free.",
)
EventList = page_of(EventDocument, "EventList", "The newest events.")
MeDocument = document_of(MeRow, "MeDocument", queues=document_of(QueueRole, "MyQueue"))
