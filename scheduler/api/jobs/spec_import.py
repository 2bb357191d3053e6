"""``/jobs/import``: a job written for another scheduler as a spec."""

from dataclasses import asdict

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http.bodies import Body, read_body
from scheduler.api.http.documents import Shape, text, word
from scheduler.api.http.permissions import READ
from scheduler.api.http.view import ApiView
from scheduler.services.jobs.spec_import import MAX_CHARS, spec_import


class ImportBody(Body):
    """What to translate."""

    text = serializers.CharField(
        max_length=MAX_CHARS,
        trim_whitespace=False,
        help_text="A batch script of Slurm, a Job of Kubernetes, a task of SkyPilot or of dstack.",
    )
    queue = serializers.CharField(required=False, allow_blank=True, max_length=120, help_text="Where it is to wait.")


class UnmappedDocument(Shape):
    """Something of the original that the spec does not say."""

    source = text("The line or field as it stood.")  # type: ignore[assignment]  # a field; the class takes it away
    why = text("What Clusterweb does instead, or what to do.")


class SpecProblemDocument(Shape):
    """Something of the spec that is not right yet."""

    pointer = text("JSON pointer into the spec.")
    code = text()
    detail = text()


class ImportDocument(Shape):
    """What a foreign job became."""

    kind = word(["sbatch", "kubernetes", "skypilot", "dstack"])
    spec = serializers.DictField(
        help_text="For `POST /jobs`, once it has no problems; till then it may lack something."
    )
    unmapped = UnmappedDocument(many=True)
    problems = SpecProblemDocument(many=True)


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
