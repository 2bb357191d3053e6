"""Documents of what happened to a job: events, runs, measured values, bad items. Nothing here runs in a request."""

from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema_field
from rest_framework import serializers

from scheduler.api.http.documents import document_of, page_of, series_of
from scheduler.api.http.pagination import PageFields
from scheduler.api.jobs.documents import AttemptDocument, SeatDocument
from scheduler.selectors.jobs.history import JOB_VALUES
from scheduler.selectors.jobs.rows import BadItemRow, GapRow, ReceiptRow, RunRow
from scheduler.selectors.rows import EventRow

BadItemDocument = document_of(BadItemRow, "BadItemDocument")
BadItemPage = page_of(BadItemDocument, "BadItemPage", "All of them, 500 at most.")
AttemptPage = page_of(AttemptDocument, "AttemptPage", "A page of attempts.")
EventDocument = document_of(EventRow, "EventDocument", id=serializers.CharField)
EventPage = page_of(EventDocument, "EventPage", "A page of events.")
GapDocument = document_of(GapRow, "GapDocument")
ReceiptDocument = document_of(ReceiptRow, "ReceiptDocument")
PlacedDocument = document_of(RunRow, "PlacedDocument", servers=SeatDocument, receipt=ReceiptDocument)
SeriesDocument = series_of(JOB_VALUES, "SeriesDocument", "Measured values of a job as lists of one length.")


@extend_schema_field(
    PolymorphicProxySerializer(
        component_name="TimelineEntry",
        serializers={"attempt": PlacedDocument, "wait": GapDocument, "suspended": GapDocument},
        resource_type_field_name="kind",
        many=True,
    )
)
class TimelineField(serializers.ListField):
    """Attempts and gaps."""


class PlacementDocument(PageFields):
    """The whole timeline, oldest first."""

    results = TimelineField()
