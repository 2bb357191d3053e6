"""``/jobs/import``: a job written for another scheduler as a spec."""

from dataclasses import asdict
from typing import Annotated, TypedDict

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http.bodies import Body, read_body
from scheduler.api.http.documents import document_of
from scheduler.api.http.permissions import READ
from scheduler.api.http.view import ApiView
from scheduler.selectors.rows import Json
from scheduler.services.jobs.spec_import import MAX_CHARS, ForeignFormat, spec_import


class ImportBody(Body):
    """What to translate."""

    text = serializers.CharField(
        max_length=MAX_CHARS,
        trim_whitespace=False,
        help_text="A batch script of Slurm, a Job of Kubernetes, a task of SkyPilot or of dstack.",
    )
    queue = serializers.CharField(required=False, allow_blank=True, max_length=120, help_text="Where it is to wait.")


class UnmappedRow(TypedDict):
    """Something of the original that the spec does not say."""

    source: Annotated[str, "The line or field as it stood."]
    why: Annotated[str, "What Clusterweb does instead, or what to do."]


class SpecProblemRow(TypedDict):
    """Something of the spec that is not right yet."""

    pointer: Annotated[str, "JSON pointer into the spec."]
    code: str
    detail: str


class ImportRow(TypedDict):
    """What a foreign job became."""

    kind: ForeignFormat
    spec: Annotated[Json, "For `POST /jobs`, once it has no problems; till then it may lack something."]
    unmapped: list[UnmappedRow]
    problems: list[SpecProblemRow]


ImportDocument = document_of(
    ImportRow,
    "ImportDocument",
    spec=serializers.DictField,
    unmapped=document_of(UnmappedRow, "UnmappedDocument"),
    problems=document_of(SpecProblemRow, "SpecProblemDocument"),
)


class JobImport(ApiView):
    """Jobs of other schedulers."""

    rules = {"POST": READ}
    repeatable = frozenset({"POST"})  # nothing is stored, so once is as good as twice

    @extend_schema(
        operation_id="job_import",
        summary="Translate a foreign job",
        request=ImportBody,
        responses={200: ImportDocument},
    )
    def post(self, request: Request) -> Response:
        """Return the spec that does what a job of Slurm, Kubernetes, SkyPilot or dstack asks for; nothing is stored.

        What has no counterpart here is listed with what to do about it.
        """
        given = read_body(request, ImportBody)
        found = spec_import(given["text"], queue=given.get("queue", ""))
        return Response(
            {
                "kind": found.kind,
                "spec": found.spec,
                "unmapped": [asdict(entry) for entry in found.unmapped],
                "problems": [asdict(error) for error in found.problems],
            }
        )
