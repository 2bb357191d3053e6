"""``/quota-requests``: members ask for quota, users who may change it answer."""

from collections.abc import Callable

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http.bodies import Body, ReasonField, WholeNumberField, read_body
from scheduler.api.http.documents import document_of, page_of
from scheduler.api.http.idempotency import once
from scheduler.api.http.openapi import MEANING, ProblemDocument
from scheduler.api.http.pagination import whole_list
from scheduler.api.http.parameters import choice, text
from scheduler.api.http.permissions import READ, WRITE_JOBS, WRITE_QUEUES
from scheduler.api.http.view import ApiView, with_text_id
from scheduler.api.queues.views import moves_of
from scheduler.models import QuotaRequest
from scheduler.models.queue import RequestState
from scheduler.ports import live_ports
from scheduler.selectors.queues.requests import QuotaRequestRow, quota_requests, request_row, require_request
from scheduler.selectors.rows import Json
from scheduler.selectors.visibility import access_of, require_queue
from scheduler.services.inputs import REASON_CHARS
from scheduler.services.queues.quotas import MOST_GPUS, QUOTA_FIELDS, Quota
from scheduler.services.queues.requests import (
    quota_request_change,
    quota_request_create,
    quota_request_grant,
    quota_request_refuse,
    quota_request_withdraw,
)

QuotaRequestDocument = document_of(QuotaRequestRow, id=serializers.CharField)
QuotaRequestPage = page_of(QuotaRequestDocument, "QuotaRequestPage", "The newest 200.")
WHOLE_QUOTA = "The whole quota, more than the present one, at most what the cluster has."


class AskBody(Body):
    """A request for quota."""

    queue = serializers.CharField(max_length=120, help_text="Name of the queue.")
    quota_gpus = WholeNumberField(min_value=0, max_value=MOST_GPUS, help_text=WHOLE_QUOTA)
    until = serializers.DateField(
        allow_null=True, default=None, help_text="Last day (UTC) on which it is needed; null: for good."
    )
    reason = ReasonField(help_text="Why; all who see the queue can read it.")


class GrantBody(Body):
    """What is given."""

    quota_gpus = WholeNumberField(
        min_value=0, max_value=MOST_GPUS, required=False, help_text="What was asked for without."
    )
    moves = serializers.DictField(
        child=WholeNumberField(min_value=0, max_value=MOST_GPUS),
        default=dict,
        help_text="New quotas of queues beside it, by name, as in a change of the quota.",
    )
    reason = serializers.CharField(
        max_length=REASON_CHARS[1], required=False, help_text="Kept with the change; the reason of the request without."
    )


class AskChangeBody(Body):
    """What is asked for instead; what is left out stays."""

    quota_gpus = WholeNumberField(min_value=0, max_value=MOST_GPUS, required=False, help_text=WHOLE_QUOTA)
    until = serializers.DateField(
        allow_null=True, required=False, help_text="Last day (UTC) on which it is needed; null: for good."
    )
    reason = ReasonField(help_text="Why; all who see the queue can read it.", required=False)


class RefuseBody(Body):
    """Why not."""

    reason = ReasonField(help_text="The user who asked reads it.")


def _row(request: Request, found: QuotaRequest) -> Json:
    return with_text_id(request_row(found, request.user, access_of(request.user)))


class QuotaRequests(ApiView):
    """Requests for quota."""

    rules = {"GET": READ, "POST": WRITE_JOBS}
    repeatable = frozenset({"POST"})
    query = {
        "GET": (
            text("queue", "Requests for this queue alone.", most=120),
            choice("state", "Requests in this state alone.", RequestState.values),
        )
    }

    @extend_schema(
        operation_id="quota_request_list", summary="List requests for quota", responses={200: QuotaRequestPage}
    )
    def get(self, request: Request) -> Response:
        """List the requests for queues in which you have a role, newest first."""
        rows = quota_requests(request.user, queue=self.params["queue"], state=self.params["state"] or "")
        return Response(whole_list([with_text_id(row) for row in rows]))

    @extend_schema(
        operation_id="quota_request_create",
        summary="Ask for quota",
        request=AskBody,
        responses={
            201: QuotaRequestDocument,
            (404, "application/problem+json"): OpenApiResponse(ProblemDocument, description=MEANING["404"]),
        },
        examples=[
            OpenApiExample(
                "Four more until the deadline",
                {"queue": "vision", "quota_gpus": 12, "until": "2030-11-30", "reason": "Paper deadline."},
                request_only=True,
            )
        ],
    )
    def post(self, request: Request) -> Response:
        """Ask for another quota of a queue. Members of the queue; one open request each."""

        def make() -> tuple[int, Json, str]:
            body = read_body(request, AskBody)
            made = quota_request_create(
                actor=request.user,
                queue=require_queue(request.user, body["queue"]),
                quota_gpus=body["quota_gpus"],
                until=body["until"],
                reason=body["reason"],
                at=live_ports().clock.now(),
            )
            return 201, _row(request, made), f"/api/v1/quota-requests/{made.pk}"

        return once(request, request.data, make)


class QuotaRequestDetail(ApiView):
    """One request for quota."""

    rules = {"GET": READ}

    @extend_schema(
        operation_id="quota_request_read", summary="Read a request for quota", responses={200: QuotaRequestDocument}
    )
    def get(self, request: Request, asked: int) -> Response:
        """Return one request with its answer."""
        return Response(_row(request, require_request(request.user, asked)))


class _Answer(ApiView):
    """Something that ends an open request."""

    repeatable = frozenset({"POST"})

    def end(
        self, request: Request, asked: int, shape: type[Body] | None, act: Callable[[QuotaRequest, Json], object]
    ) -> Response:
        """Do it once and answer with the request."""

        def make() -> tuple[int, Json, str]:
            found = require_request(request.user, asked)
            act(found, read_body(request, shape) if shape else {})
            return 200, _row(request, found), ""

        return once(request, request.data if shape else None, make)


class QuotaRequestGrant(_Answer):
    """Give it."""

    rules = {"POST": WRITE_QUEUES}

    @extend_schema(
        operation_id="quota_request_grant",
        summary="Grant a request for quota",
        request=GrantBody,
        responses={200: QuotaRequestDocument},
        examples=[OpenApiExample("As asked", {}, request_only=True)],
    )
    def post(self, request: Request, asked: int) -> Response:
        """Change the quota of the queue, from the next round on. Admins, and leads of the queue above.

        Ask `/queues/{name}/forecast` first what the quota would do.
        """

        def act(found: QuotaRequest, body: Json) -> object:
            kept = {column: getattr(found.queue, column) for column in QUOTA_FIELDS}
            return quota_request_grant(
                actor=request.user,
                request=found,
                quota=Quota(**{**kept, "quota_gpus": body.get("quota_gpus", found.quota_gpus)}),
                reason=body.get("reason", found.reason),
                expected_version=found.queue.version,
                at=live_ports().clock.now(),
                moves=moves_of(request, body),
            )

        return self.end(request, asked, GrantBody, act)


class QuotaRequestRefuse(_Answer):
    """Do not give it."""

    rules = {"POST": WRITE_QUEUES}

    @extend_schema(
        operation_id="quota_request_refuse",
        summary="Refuse a request for quota",
        request=RefuseBody,
        responses={200: QuotaRequestDocument},
        examples=[OpenApiExample("Not now", {"reason": "No GPU is left this month."}, request_only=True)],
    )
    def post(self, request: Request, asked: int) -> Response:
        """Refuse a request with a reason. Admins, and leads of the queue above."""

        def act(found: QuotaRequest, body: Json) -> object:
            at = live_ports().clock.now()
            return quota_request_refuse(actor=request.user, request=found, reason=body["reason"], at=at)

        return self.end(request, asked, RefuseBody, act)


class QuotaRequestChange(ApiView):
    """Ask for something else."""

    rules = {"POST": WRITE_JOBS}
    repeatable = frozenset({"POST"})

    @extend_schema(
        operation_id="quota_request_change",
        summary="Change a request for quota",
        request=AskChangeBody,
        responses={201: QuotaRequestDocument},
        examples=[OpenApiExample("Two more", {"quota_gpus": 14}, request_only=True)],
    )
    def post(self, request: Request, asked: int) -> Response:
        """Put a new request in the place of an open one of your own, which is withdrawn; answers with the new one."""

        def make() -> tuple[int, Json, str]:
            found, body = require_request(request.user, asked), read_body(request, AskChangeBody)
            kept = {name: getattr(found, name) for name in ("quota_gpus", "until", "reason")}
            made = quota_request_change(
                actor=request.user, request=found, at=live_ports().clock.now(), **{**kept, **body}
            )
            return 201, _row(request, made), f"/api/v1/quota-requests/{made.pk}"

        return once(request, request.data, make)


class QuotaRequestWithdraw(_Answer):
    """Ask no more."""

    rules = {"POST": WRITE_JOBS}

    @extend_schema(
        operation_id="quota_request_withdraw",
        summary="Withdraw a request for quota",
        request=None,
        responses={200: QuotaRequestDocument},
    )
    def post(self, request: Request, asked: int) -> Response:
        """Withdraw an open request of your own."""

        def act(found: QuotaRequest, body: Json) -> object:
            return quota_request_withdraw(actor=request.user, request=found, at=live_ports().clock.now())

        return self.end(request, asked, None, act)
