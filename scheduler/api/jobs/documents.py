"""Documents of jobs and attempts, derived from their rows. Nothing here runs in a request."""

from typing import Any

from drf_spectacular.extensions import OpenApiSerializerExtension
from drf_spectacular.utils import OpenApiExample
from rest_framework import serializers

from scheduler.api.http.documents import Shape, document_of, page_of
from scheduler.core.spec.spec import job_spec_schema
from scheduler.selectors.jobs.rows import AttemptRow, Checkpoint, JobDetail, JobRow, SeatRow

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

HIDDEN_VALUE = {
    "description": "In answers: a plain value that only the owner and leads see. It cannot be sent.",
    "type": "object",
    "additionalProperties": False,
    "required": ["hidden"],
    "properties": {"hidden": {"const": True}},
}


class SpecDocument(Shape):
    """What a job runs and holds."""


class SpecSchema(OpenApiSerializerExtension):  # type: ignore[no-untyped-call]  # drf-spectacular types little
    """The spec's own JSON Schema stands in the document."""

    target_class = "scheduler.api.jobs.documents.SpecDocument"

    def map_serializer(self, auto_schema: Any, direction: str) -> dict[str, Any]:  # drf-spectacular has no types
        """Return the schema of a spec without what only a stand-alone JSON Schema has."""
        schema = {key: value for key, value in job_spec_schema().items() if not key.startswith("$")}
        schema["properties"]["env"]["additionalProperties"]["anyOf"].append(HIDDEN_VALUE)
        return schema


class SpecForm(Shape):
    """A spec and the files of its working directory, as a form."""

    spec = serializers.FileField(help_text="The spec as YAML or JSON, typed or a file.")
    file = serializers.ListField(
        child=serializers.FileField(), required=False, help_text="Text files; each lands in the working directory."
    )
    code = serializers.CharField(
        required=False, help_text="Manifest of a sent folder, in place of `code: {dir: ...}` in the spec."
    )


SeatDocument = document_of(SeatRow, "SeatDocument")
AttemptDocument = document_of(AttemptRow, "AttemptDocument", servers=SeatDocument)
JobRowDocument = document_of(JobRow)
JobDocument = document_of(
    JobDetail,
    "JobDocument",
    spec=SpecDocument,
    checkpoint=document_of(Checkpoint, "CheckpointDocument"),
    attempt=AttemptDocument,
)
JobPage = page_of(JobRowDocument, "JobPage", "A page of jobs.")
