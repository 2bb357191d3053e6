"""``/jobs/actions``: the same thing done with several jobs; ``/jobs/bulk``: several jobs submitted by one request."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from typing import Annotated, Any, TypedDict

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http.bodies import Body, OneOfField, WholeNumberField, read_body
from scheduler.api.http.documents import document_of
from scheduler.api.http.idempotency import once
from scheduler.api.http.permissions import WRITE_JOBS
from scheduler.api.http.view import ApiView
from scheduler.core.model.errors import FieldError, SpecInvalid
from scheduler.core.model.lifecycle import JobState
from scheduler.core.spec.limits import PRIORITY
from scheduler.ports import live_ports
from scheduler.selectors.jobs.kept import kept_sentence
from scheduler.selectors.rows import one_of
from scheduler.services.code.git import git_fetch
from scheduler.services.jobs.bulk import ACTIONS, MOST_JOBS, BulkOutcome, jobs_act
from scheduler.services.jobs.check import jobs_checked
from scheduler.services.jobs.spec_text import spec_from_text
from scheduler.services.jobs.submit import MOST_SUBMITTED, jobs_store

# What ends a run: its answer says what is kept.
TELL_KEPT = ("cancel", "suspend")


class ActionsBody(Body):
    """What to do, with which jobs."""

    action = OneOfField(list(ACTIONS))
    jobs = serializers.ListField(
        child=serializers.CharField(max_length=40),
        allow_empty=False,
        max_length=MOST_JOBS,
        help_text="Ids, numbers, or `J-` and the number.",
    )
    priority = WholeNumberField(
        min_value=PRIORITY[0],
        max_value=PRIORITY[1],
        required=False,
        help_text="The new one; needed for `reprioritise` and for nothing else.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Want a priority exactly where it is to be changed."""
        if (attrs["action"] == "reprioritise") != ("priority" in attrs):
            raise serializers.ValidationError({"priority": "reprioritise needs a priority, and nothing else has one."})
        return attrs


class OutcomeRow(TypedDict):
    """What came of it for one job."""

    job: Annotated[str, "As it was named."]
    id: str | None
    ok: bool
    state: Annotated[str, one_of(JobState, blank=True), "Afterwards; empty for a job that you may not see."]
    detail: Annotated[str, "Why nothing was done; empty when it was."]
    kept: Annotated[str, "Of a job that was cancelled or suspended: what is kept of its work, and what is lost."]


class Outcomes(TypedDict):
    """One outcome for each job that was named."""

    results: list[OutcomeRow]


OutcomesDocument = document_of(Outcomes, "OutcomesDocument", results=document_of(OutcomeRow, "OutcomeDocument"))


class JobActions(ApiView):
    """Several jobs at once."""

    rules = {"POST": WRITE_JOBS}
    repeatable = frozenset({"POST"})

    @extend_schema(
        operation_id="job_actions",
        summary="Cancel, suspend, resume, restore or reprioritise several jobs",
        request=ActionsBody,
        responses={200: OutcomesDocument},
    )
    def post(self, request: Request) -> Response:
        """Do the same with up to 200 jobs; each is answered for itself, so that one that refuses stops no other."""
        body = read_body(request, ActionsBody)

        def make() -> tuple[int, Any, str]:
            at = live_ports().clock.now()
            outcomes = jobs_act(
                actor=request.user,
                keys=body["jobs"],
                action=body["action"],
                at=at,
                priority=body.get("priority"),
            )
            rows = [_row(outcome, at=at, tells_kept=body["action"] in TELL_KEPT) for outcome in outcomes]
            return 200, {"results": rows}, ""

        return once(request, body, make)


def _row(outcome: BulkOutcome, *, at: datetime, tells_kept: bool) -> OutcomeRow:
    job = outcome.job
    return {
        "job": outcome.key,
        "id": job.pk if job else None,
        "ok": not outcome.refused,
        "state": job.state if job else "",
        "detail": outcome.refused,
        "kept": kept_sentence(job, at) if job and tells_kept and not outcome.refused else "",
    }


class BulkBody(Body):
    """Specs of new jobs: as objects or as texts."""

    jobs = serializers.ListField(
        child=serializers.DictField(),
        required=False,
        allow_empty=False,
        max_length=MOST_SUBMITTED,
        help_text="Specs, as `POST /jobs` takes one each.",
    )
    specs = serializers.ListField(
        child=serializers.CharField(trim_whitespace=False),
        required=False,
        allow_empty=False,
        max_length=MOST_SUBMITTED,
        help_text="The same as texts, YAML or JSON, in place of `jobs`.",
    )

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        """Want one of the two."""
        if len(attrs) != 1:
            raise serializers.ValidationError({"jobs": "Give jobs, or specs with the same as texts: one of the two."})
        return attrs


class SubmittedRow(TypedDict):
    """One job that was stored."""

    id: str
    number: int
    name: str


class Submitted(TypedDict):
    """The jobs in the order of their specs."""

    results: list[SubmittedRow]


SubmittedDocument = document_of(
    Submitted, "SubmittedDocument", results=document_of(SubmittedRow, "SubmittedRowDocument")
)


def _parsed(texts: Sequence[str]) -> list[object]:
    """Return the data of each text. Raises SpecInvalid with an entry for each text that cannot be read."""
    found: list[object] = []
    errors: list[FieldError] = []
    for place, text in enumerate(texts):
        try:
            found.append(spec_from_text(text))
        except SpecInvalid as error:
            errors += [replace(one, pointer=f"/specs/{place}{one.pointer}") for one in error.errors]
    if errors:
        raise SpecInvalid(errors)
    return found


class JobsBulk(ApiView):
    """Several jobs by one request."""

    rules = {"POST": WRITE_JOBS}
    repeatable = frozenset({"POST"})

    @extend_schema(
        operation_id="job_submit_bulk",
        summary="Submit several jobs",
        request=BulkBody,
        responses={201: OpenApiResponse(SubmittedDocument, description="All are stored and queued.")},
    )
    def post(self, request: Request) -> Response:
        """Submit up to 500 jobs, all or none: where one spec is wrong, `errors` says in which and nothing is stored."""
        body = read_body(request, BulkBody)
        [field] = body
        jobs_data = _parsed(body["specs"]) if field == "specs" else body["jobs"]
        specs = [(f"/{field}/{place}", spec) for place, spec in enumerate(jobs_data)]
        git_fetch(actor=request.user, specs=specs, at=live_ports().clock.now())

        def make() -> tuple[int, Any, str]:
            ports = live_ports()
            try:
                checked = jobs_checked(actor=request.user, data=jobs_data)
                jobs = jobs_store(checked, at=ports.clock.now(), ids=ports.ids)
            except SpecInvalid as error:
                raise SpecInvalid([replace(one, pointer=f"/{field}{one.pointer}") for one in error.errors]) from None
            rows: list[SubmittedRow] = [{"id": job.pk, "number": job.number, "name": job.name} for job in jobs]
            return 201, {"results": rows}, ""

        return once(request, body, make)
