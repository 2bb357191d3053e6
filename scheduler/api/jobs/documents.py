"""Shapes of jobs in the OpenAPI document. Nothing here runs in a request: selectors make the data."""

from typing import Any

from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.utils import OpenApiExample
from rest_framework import serializers

from scheduler.api.http.documents import STATES, Facts, Shape, moment, real, text, whole, word, yes
from scheduler.api.http.pagination import PageFields
from scheduler.core.model.lifecycle import EndCause
from scheduler.core.model.plan import PreemptRule, WaitReason
from scheduler.core.operations.failures import FailureClass
from scheduler.core.spec.spec import job_spec_schema
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

    target_class = "scheduler.api.jobs.documents.SpecDocument"

    def map_serializer(self, auto_schema: Any, direction: str) -> dict[str, Any]:  # drf-spectacular has no types
        """Return the schema of a spec without what only a stand-alone JSON Schema has."""
        return {key: value for key, value in job_spec_schema().items() if not key.startswith("$")}


class SpecForm(Shape):
    """A spec and the files of its working directory, as a form."""

    spec = serializers.FileField(help_text="The spec as YAML or JSON, typed or a file.")
    file = serializers.ListField(
        child=serializers.FileField(), required=False, help_text="Text files; each lands in the working directory."
    )


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
    idle_since = moment("Since when its GPUs do nothing, where that is longer than its queue allows.")
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
        child=word(["cancel", "suspend", "resume", "restore"]), help_text="What you may do with it now."
    )


class JobPage(PageFields):
    """A page of jobs."""

    results = JobRow(many=True)
