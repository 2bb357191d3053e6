"""Shapes of jobs in the OpenAPI document. Nothing here runs in a request: selectors make the data."""

from typing import Any

from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.utils import OpenApiExample, PolymorphicProxySerializer, extend_schema_field
from rest_framework import serializers

from scheduler.api.bodies import Body
from scheduler.api.documents import (
    STATES,
    Facts,
    Moments,
    NamedJob,
    Numbers,
    Shape,
    moment,
    real,
    text,
    whole,
    word,
    yes,
)
from scheduler.api.pagination import PageFields
from scheduler.core.failures import FailureClass
from scheduler.core.lifecycle import EndCause
from scheduler.core.plan import PreemptRule, WaitReason
from scheduler.core.spec import job_spec_schema
from scheduler.models.job import AttemptKind, AttemptState

CAUSES = [cause.value for cause in EndCause]
FAILURES = [failure.value for failure in FailureClass]
REASONS = [reason.value for reason in WaitReason]
RULES = [rule.value for rule in PreemptRule]
WANTED = ["run", "preempt", "suspend", "cancel"]

SUBMIT_EXAMPLES = [
    OpenApiExample(
        "A job of one file",
        {
            "apiVersion": "v1",
            "name": "resnet-cifar",
            "queue": "vision",
            "command": ["python", "train.py", "--epochs", "3"],
            "files": {"train.py": "print('training')\n"},
            "resources": {"gpus": 1, "cpus": "auto", "memory": "auto"},
            "schedule": {"priority": 50, "preemptible": True, "max_duration": "2h"},
            "progress": {"total_steps": 1200},
        },
        request_only=True,
        media_type="application/json",
    ),
    OpenApiExample(
        "The same as YAML",
        "apiVersion: v1\nname: resnet-cifar\nqueue: vision\ncommand: [python, train.py, --epochs, '3']\n",
        request_only=True,
        media_type="application/yaml",
    ),
    OpenApiExample(
        "The least there can be",
        {"apiVersion": "v1", "name": "hello", "queue": "vision", "command": ["python", "-c", "print('hello')"]},
        request_only=True,
        media_type="application/json",
    ),
]


class SpecDocument(Shape):
    """What a job runs and holds."""


class SpecSchema(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]  # drf-spectacular types little
    """The spec's own JSON Schema stands in the document."""

    target_class = "scheduler.api.job_documents.SpecDocument"

    def map_serializer(self, auto_schema: Any, direction: str) -> dict[str, Any]:  # drf-spectacular has no types
        """Return the schema of a spec without what only a stand-alone JSON Schema has."""
        return {key: value for key, value in job_spec_schema().items() if not key.startswith("$")}


class SpecForm(Shape):
    """A spec and the files of its working directory, as a form."""

    spec = serializers.FileField(help_text="The spec as YAML or JSON, typed or a file.")
    file = serializers.ListField(
        child=serializers.FileField(), required=False, help_text="Text files; each lands in the working directory."
    )


class CheckDocument(Shape):
    """One thing that was checked."""

    name = text()
    ok = yes()
    text = text("What was found.")


class SeatDocument(Shape):
    """What an attempt holds on one server."""

    server_id = text()
    server = text("Name of the server.")
    gpus = serializers.ListField(child=serializers.IntegerField(), help_text="Indexes of the GPUs.")
    cpus = real("Cores.")
    memory_bytes = whole()


class AttemptDocument(Shape):
    """One run of a job."""

    id = text()
    number = whole()
    state = word(list(AttemptState.values))
    run_kind = word(list(AttemptKind.values), "smoke: its first iterations, on one GPU.")
    wanted = word(WANTED, "What its agent is asked for.")
    num_gpus = whole()
    round = whole("The round that gave it its place.")
    created_at = moment(null=False)
    started_at = moment("When its process was seen first.")
    stop_requested_at = moment()
    ended_at = moment()
    end_cause = word(CAUSES, blank=True)
    end_detail = text()
    exit_code = whole(null=True)
    exit_signal = whole(null=True)
    failure = word(FAILURES, "What failed; empty when nothing did or nobody knows.", blank=True)
    failure_line = text("The line of its output that says so, without secrets.")
    resume_step = whole("Step of the checkpoint that it continued from.", null=True)
    first_step = whole(null=True)
    last_step = whole(null=True)
    peak_memory_bytes = whole(null=True)
    log_bytes = whole()
    lost_s = real("Work lost since the last checkpoint, seconds.", null=True)
    servers = SeatDocument(many=True)


class JobRow(Shape):
    """One line of a list of jobs."""

    id = text("ULID.")
    number = whole("Shown as J-<number>.")
    name = text()
    queue = text()
    color_slot = whole("Colour of the queue on pages, 1 to 8.")
    owner = text()
    state = word(STATES)
    wanted = word(["run", "suspend", "cancel"], "What its owner wants.")
    num_gpus = whole()
    priority = whole()
    step = whole(null=True)
    total_steps = whole(null=True)
    loss = real(null=True)
    steps_per_s = real(null=True)
    wait_reason = word(REASONS, "Why it waits; empty when it does not.", blank=True)
    wait_sentence = text("The same in words, with numbers.")
    wait_position = whole("1 for the first in the order of the policy.", null=True)
    submitted_at = moment(null=False)
    first_started_at = moment()
    state_changed_at = moment(null=False)
    ended_at = moment()
    end_cause = word(CAUSES, blank=True)
    end_detail = text()


class CheckpointDocument(Shape):
    """Where the job would continue."""

    attempt = whole("Number of the attempt that wrote it.")
    name = text()
    step = whole(null=True)
    at = moment()


class JobDocument(JobRow):
    """Everything about one job."""

    spec = SpecDocument(help_text="As stored, with every default.")
    wait_evidence = Facts()
    wait_since = moment()
    wait_round = whole(null=True)
    retry_after = moment("Not tried again before, after a failure.")
    preemptible = yes()
    max_attempts = whole()
    profile = text()
    attained_gpu_s = real("GPU-seconds of closed leases.")
    executed_s = real()
    queueing_s = real()
    preemptions = whole()
    failures = whole()
    saved_gpu_s = real("GPU-seconds left unused because it was stopped early.", null=True)
    progress_at = moment()
    checkpoint = CheckpointDocument(allow_null=True)
    attempt = AttemptDocument(allow_null=True, help_text="The newest one.")
    num_events = whole()
    actions = serializers.ListField(
        child=word(["cancel", "suspend", "resume"]), help_text="What you may do with it now."
    )


class JobPage(PageFields):
    """A page of jobs."""

    results = JobRow(many=True)


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


class AheadDocument(NamedJob):
    """A job that goes first."""

    position = whole(null=True)
    num_gpus = whole()
    color_slot = whole()
    reason = text()
    sentence = text()


class GapDocument(Shape):
    """A time in which the job waited for one reason."""

    kind = word(["wait", "suspended"])
    reason = text()
    start = moment(null=False)
    end = moment("null: until now.")
    duration_s = real()


class LookedDocument(Shape):
    """When a job that is asked about starts, from futures simulated for the question."""

    known = yes()
    p50_at = moment("Half of the futures start it by then.")
    p90_at = moment("Nine in ten; null where that many do not start it at all.")
    futures = whole("How many were simulated; 0 for a job that starts with the next round.")
    reason = text("Why nothing is known; empty when something is.")
    sentence = text("The same in words.")


class PlannedSeatDocument(Shape):
    """What the next round would give on one server."""

    server_id = text()
    server = text("Name of the server.")
    num_gpus = whole()
    cpus = real("Cores.")
    memory_bytes = whole()


class PreemptedDocument(NamedJob):
    """A running job that would have to make room."""

    color_slot = whole()
    num_gpus = whole()
    rule = word(RULES)


class PreviewDocument(Shape):
    """What the next round would do with a job that is not submitted yet."""

    feasible = yes("false: no round could ever start it; null: no server is up.", null=True)
    starts = word(["now", "after_others_leave", "later", "never", "unknown"])
    sentence = text("The answer in words.")
    largest_gpus = whole("Where it never starts: the most GPUs with which it could.", null=True)
    round = whole("The round before the question.")
    reason = word(REASONS, "Why it would wait; empty when it would not.", blank=True)
    evidence = Facts(help_text="The numbers of the reason.")
    position = whole("Its place in the order of the policy.", null=True)
    waiting_jobs = whole("Of so many that then wait.", null=True)
    placement = PlannedSeatDocument(many=True, help_text="Where it starts; empty when it waits.")
    preempts = PreemptedDocument(many=True, help_text="Who has to make room for it.")
    estimate = LookedDocument(allow_null=True, help_text="When; null where it never starts or no server is up.")


class DryRunDocument(Shape):
    """What would be stored, and what would become of it."""

    spec = SpecDocument()
    checks = CheckDocument(many=True)
    preview = PreviewDocument()


class EstimateDocument(Shape):
    """When a waiting job starts, from futures simulated after a round."""

    known = yes()
    p50_at = moment("Half of the futures start it by then.")
    p90_at = moment("Nine in ten; null where that many do not start it at all.")
    made_at = moment()
    round = whole(null=True)
    futures = whole("How many were simulated.")
    reason = text("Why nothing is known; empty when something is.")
    sentence = text("The same in words.")


class EstimateErrorDocument(Shape):
    """How far first estimates of the last 7 days were off, once jobs started."""

    starts = whole("Starts that had an estimate.")
    median_error_s = real("Median size of the error of `p50_at`.")
    covered_frac = real("Share that had started by `p90_at`.", null=True)


class ChangeBody(Body):
    """What a waiting job asks for from now on; what is absent stays."""

    queue = serializers.CharField(required=False, max_length=120, help_text="A leaf queue.")
    gpus = serializers.IntegerField(required=False, min_value=1, max_value=1_000_000)
    min_gpus = serializers.IntegerField(required=False, min_value=1, max_value=1_000_000)
    max_servers = serializers.IntegerField(required=False, min_value=1, max_value=1_000_000)
    cpus = serializers.JSONField(required=False, help_text='Cores, or "auto".')
    memory = serializers.CharField(required=False, max_length=20, help_text='Such as "4GiB", or "auto".')


class UnblockDocument(Shape):
    """A change with which a waiting job starts, tried before it is told."""

    key = word(["queue", "max_servers", "resources", "min_gpus", "gpus"])
    title = text()
    change = ChangeBody(help_text="The body of `POST /jobs/{id}/unblock` that makes it so.")
    starts = word(["now", "after_others_leave", "sooner"])
    sentence = text()
    p50_at = moment("Of a change that starts it sooner.")
    sooner_s = real("By how much, seconds; null where as it is it does not start at all.", null=True)
    preempts = PreemptedDocument(many=True)


class ExplainDocument(Shape):
    """Why a job waits."""

    round = whole("The round that said so.", null=True)
    state = word(STATES)
    reason = word(REASONS, "The binding constraint; empty when it does not wait.", blank=True)
    sentence = text()
    evidence = Facts(help_text="The numbers of the reason.")
    since = moment()
    policy = text()
    position = whole("Place in the cluster; 1 is next.", null=True)
    waiting_jobs = whole(null=True)
    queue_position = whole(null=True)
    queue_waiting_jobs = whole(null=True)
    num_ahead = whole()
    ahead = AheadDocument(many=True, help_text="The nearest of them.")
    checks = CheckDocument(many=True)
    held_back = GapDocument(many=True, help_text="What it waited for so far.")
    estimate = EstimateDocument(allow_null=True, help_text="null when it does not wait.")
    estimate_error = EstimateErrorDocument(allow_null=True)
    unblock = UnblockDocument(many=True, help_text="Up to three; none when you may not change the job.")


class SeriesDocument(Shape):
    """Measured values of a job as lists of one length."""

    at = Moments()
    step = Numbers()
    loss = Numbers()
    steps_per_s = Numbers()
    cpu_frac = Numbers()
    memory_bytes = Numbers()
    gpu_frac = Numbers()


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
