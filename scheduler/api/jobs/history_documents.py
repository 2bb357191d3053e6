"""Shapes of what became of a job: events, runs, measured values, bad items. Nothing here runs in a request."""

from drf_spectacular.utils import PolymorphicProxySerializer, extend_schema_field
from rest_framework import serializers

from scheduler.api.http.documents import Facts, Moments, NamedJob, Numbers, Shape, moment, real, text, whole, word
from scheduler.api.http.pagination import PageFields
from scheduler.api.jobs.documents import RULES, AttemptDocument


class BadItemDocument(Shape):
    """An item of a dataset that was left out."""

    dataset = text()
    attempt = whole("Number of the attempt that found it.")
    key = text("As the script names it.")
    error = text("What reading or decoding it raised.")


class BadItemPage(PageFields):
    """All of them, 500 at most."""

    results = BadItemDocument(many=True)


class AttemptPage(PageFields):
    """A page of attempts."""

    results = AttemptDocument(many=True)


class EventDocument(Shape):
    """One thing that happened."""

    id = text()
    number = whole("1, 2, 3 ... within the job.", null=True)
    at = moment(null=False)
    kind = text("job_state, job_wait, job_wanted, server_state, quota, settings, ...")
    actor = text('User name, "scheduler", or "agent <server>".')
    job_id = text(null=True)
    job_number = whole(null=True)
    job_name = text(null=True)
    queue = text(null=True)
    color_slot = whole(null=True)
    server = text(null=True)
    old_state = text()
    new_state = text()
    reason = text()
    data = Facts()  # type: ignore[assignment]  # a field; the class takes it away from the attribute


class EventPage(PageFields):
    """A page of events."""

    results = EventDocument(many=True)


class GapDocument(Shape):
    """A time in which the job waited for one reason."""

    kind = word(["wait", "suspended"])
    reason = text()
    start = moment(null=False)
    end = moment("null: until now.")
    duration_s = real()


class SeriesDocument(Shape):
    """Measured values of a job as lists of one length."""

    at = Moments()
    step = Numbers()
    loss = Numbers()
    steps_per_s = Numbers()
    cpu_frac = Numbers()
    memory_bytes = Numbers()
    gpu_frac = Numbers()
    cached_frac = Numbers()


class ReceiptDocument(Shape):
    """By whom and by which rule an attempt was preempted."""

    rule = word(RULES)
    at = moment()
    lost_s = real(null=True)
    by_job = NamedJob(allow_null=True)


class PlacedDocument(AttemptDocument):
    """A run on the timeline of a job."""

    kind = word(["attempt"])
    start = moment(null=False)
    end = moment("null: until now.")
    duration_s = real()
    receipt = ReceiptDocument(allow_null=True)


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
