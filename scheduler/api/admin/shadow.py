"""``/shadow``: a second configuration that plans every round and acts on none."""

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.admin.settings import ChosenBody
from scheduler.api.http.bodies import ReasonField, read_body
from scheduler.api.http.documents import document_of, page_of
from scheduler.api.http.pagination import PAGE, Order
from scheduler.api.http.parameters import reason
from scheduler.api.http.permissions import ADMIN
from scheduler.api.http.preconditions import etag, expected_version, guarded
from scheduler.api.http.view import ApiView
from scheduler.models import Shadow
from scheduler.ports import live_ports
from scheduler.selectors.cluster.rows import ScoreRow, ShadowReport, ShadowRoundRow
from scheduler.selectors.cluster.shadow import shadow_report, shadow_round_row, shadow_rounds
from scheduler.services.cluster.shadow import shadow_choose, shadow_end, shadow_row

NEWEST_FIRST = Order(name="-number", column="number", tie="number")


class ShadowBody(ChosenBody):
    """What differs from the settings in force; what is left out is taken from them."""

    introspection = serializers.ListField(child=serializers.CharField(max_length=40), required=False)
    introspection_options = serializers.DictField(child=serializers.DictField(), required=False)
    min_run_s = serializers.FloatField(required=False)
    reason = ReasonField()


@extend_schema_field({"type": "array", "items": {"type": "array", "items": {"type": "integer"}}})
class JobNumbers(serializers.ListField):
    """Job numbers with GPUs."""


ShadowDocument = document_of(ShadowReport, "ShadowDocument", scores=document_of(ScoreRow, "ScoreDocument"))
ShadowRoundDocument = document_of(
    ShadowRoundRow, "ShadowRoundDocument", only_live=JobNumbers, only_shadow=JobNumbers, other_gpus=JobNumbers
)
ShadowRoundPage = page_of(ShadowRoundDocument, "ShadowRoundPage", "A page of rounds.")


def _answer(shadow: Shadow) -> Response:
    return Response(shadow_report(shadow), headers={"ETag": etag(shadow.version)})


class ShadowPolicy(ApiView):
    """The shadow policy."""

    rules = {"GET": ADMIN, "PATCH": ADMIN, "DELETE": ADMIN}
    versioned = frozenset({"PATCH"})
    # A DELETE has no body that every client and proxy passes on.
    query = {"DELETE": (reason(),)}

    @extend_schema(operation_id="shadow_read", summary="Read the shadow policy", responses={200: ShadowDocument})
    def get(self, request: Request) -> Response:
        """Return the shadow with its scores. Each compares replays of both on what ended since it was chosen."""
        return _answer(shadow_row())

    @extend_schema(
        operation_id="shadow_choose",
        summary="Choose a shadow policy",
        request=ShadowBody,
        responses={200: ShadowDocument},
        examples=[OpenApiExample("Another order", {"policy": "srtf", "reason": "To compare."}, request_only=True)],
    )
    def patch(self, request: Request) -> Response:
        """Let another configuration plan every round from the next one on, without acting."""
        body = read_body(request, ShadowBody)
        why = body.pop("reason")
        version = expected_version(request, present=shadow_row().version)
        at = live_ports().clock.now()
        with guarded():
            made = shadow_choose(actor=request.user, changes=body, expected_version=version, at=at, reason=why)
        return _answer(made)

    @extend_schema(
        operation_id="shadow_end",
        summary="End the shadow policy",
        responses={204: OpenApiResponse(description="No round is planned twice any more.")},
    )
    def delete(self, request: Request) -> Response:
        """Have no shadow from the next round on."""
        at, why = live_ports().clock.now(), self.params["reason"]
        shadow_end(actor=request.user, expected_version=shadow_row().version, at=at, reason=why)
        return Response(status=204)


class ShadowRounds(ApiView):
    """Its rounds."""

    rules = {"GET": ADMIN}
    query = {"GET": PAGE}

    @extend_schema(operation_id="shadow_rounds", summary="List its rounds", responses={200: ShadowRoundPage})
    def get(self, request: Request) -> Response:
        """List what it would have done in each round, newest first: which jobs run under one and not the other."""
        return self.page(request, shadow_rounds(shadow_row()), NEWEST_FIRST, shadow_round_row)
