"""``/webhooks``: addresses that get a signed message for each event, and the log of these messages."""

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http.bodies import Body, OneOfField, read_body
from scheduler.api.http.documents import document_of, page_of
from scheduler.api.http.pagination import NEWEST_FIRST, PAGE
from scheduler.api.http.permissions import WRITE_QUEUES
from scheduler.api.http.view import ApiView
from scheduler.core.model.errors import FieldError, NotFound, SpecInvalid
from scheduler.models import Queue
from scheduler.ports import live_ports
from scheduler.selectors.accounts.notices import NOTICES
from scheduler.selectors.accounts.rows import DeliveryRow, NewWebhookRow, SecretRow, WebhookRow
from scheduler.selectors.accounts.webhooks import delivery_row, require_webhook, webhook_row, webhooks_visible
from scheduler.selectors.visibility import require_queue
from scheduler.services.accounts.webhooks import webhook_create, webhook_renew_secret, webhook_revoke, webhook_test


class WebhookBody(Body):
    """A new webhook."""

    name = serializers.CharField(max_length=80, help_text="What it is for.")
    url = serializers.CharField(max_length=500, help_text="Where messages are posted; https.")
    notices = serializers.ListField(child=OneOfField(NOTICES), allow_empty=False, help_text="What it is told of.")
    queue = serializers.CharField(
        max_length=120, allow_null=True, default=None, help_text="Whose events, with those below; null: the cluster's."
    )


WebhookDocument = document_of(WebhookRow, "WebhookDocument")
NewWebhookDocument = document_of(NewWebhookRow, "NewWebhookDocument")
SecretDocument = document_of(SecretRow, "SecretDocument")
WebhookPage = page_of(WebhookDocument, "WebhookPage", "A page of webhooks.")
DeliveryDocument = document_of(DeliveryRow, "DeliveryDocument")
DeliveryPage = page_of(DeliveryDocument, "DeliveryPage", "A page of messages.")


def _queue(request: Request, name: str | None) -> Queue | None:
    if name is None:
        return None
    try:
        return require_queue(request.user, name)
    except NotFound as error:
        raise SpecInvalid([FieldError(pointer="/queue", code="unknown", detail=str(error))]) from None


class Webhooks(ApiView):
    """The webhooks that you may manage."""

    rules = {"GET": WRITE_QUEUES, "POST": WRITE_QUEUES}
    query = {"GET": PAGE}

    @extend_schema(operation_id="webhook_list", summary="List webhooks", responses={200: WebhookPage})
    def get(self, request: Request) -> Response:
        """List the webhooks of the queues that you lead, newest first, revoked ones too. An admin sees all."""
        return self.page(request, webhooks_visible(request.user), NEWEST_FIRST, webhook_row)

    @extend_schema(
        operation_id="webhook_create",
        summary="Make a webhook",
        request=WebhookBody,
        responses={201: NewWebhookDocument},
        examples=[
            OpenApiExample(
                "A team's chat",
                {
                    "name": "chat",
                    "url": "https://chat.example/hooks/room",
                    "notices": ["job.failed"],
                    "queue": "vision",
                },
                request_only=True,
            )
        ],
    )
    def post(self, request: Request) -> Response:
        """Make a webhook. Its secret is in this answer and nowhere else, so no Idempotency-Key is taken."""
        body = read_body(request, WebhookBody)
        queue = _queue(request, body.pop("queue"))
        made, secret = webhook_create(actor=request.user, queue=queue, at=live_ports().clock.now(), **body)
        row: NewWebhookRow = {**webhook_row(made), "secret": secret}
        return Response(row, status=201)


class WebhookDetail(ApiView):
    """One webhook."""

    rules = {"GET": WRITE_QUEUES, "DELETE": WRITE_QUEUES}

    @extend_schema(operation_id="webhook_read", summary="Read a webhook", responses={200: WebhookDocument})
    def get(self, request: Request, webhook: int) -> Response:
        """Return one webhook."""
        return Response(webhook_row(require_webhook(request.user, webhook)))

    @extend_schema(
        operation_id="webhook_revoke",
        summary="Revoke a webhook",
        responses={204: OpenApiResponse(description="It is told nothing from now on.")},
    )
    def delete(self, request: Request, webhook: int) -> Response:
        """End a webhook at once, with all that waits to be sent."""
        found = require_webhook(request.user, webhook)
        webhook_revoke(actor=request.user, webhook=found, at=live_ports().clock.now())
        return Response(status=204)


class WebhookTest(ApiView):
    """A message that says it is a test."""

    rules = {"POST": WRITE_QUEUES}

    @extend_schema(
        operation_id="webhook_test",
        summary="Test a webhook",
        request=None,
        responses={202: DeliveryDocument, 409: OpenApiResponse(description="It is revoked.")},
    )
    def post(self, request: Request, webhook: int) -> Response:
        """Send a test; the log of deliveries says what became of it."""
        found = require_webhook(request.user, webhook)
        made = webhook_test(actor=request.user, webhook=found, at=live_ports().clock.now())
        return Response(delivery_row(made), status=202)


class WebhookSecret(ApiView):
    """Another secret."""

    rules = {"POST": WRITE_QUEUES}

    @extend_schema(
        operation_id="webhook_new_secret",
        summary="Give a webhook another secret",
        request=None,
        responses={200: SecretDocument, 409: OpenApiResponse(description="It is revoked.")},
    )
    def post(self, request: Request, webhook: int) -> Response:
        """Return another secret, shown only here; the old one signs nothing from now on."""
        found = require_webhook(request.user, webhook)
        secret = webhook_renew_secret(actor=request.user, webhook=found, at=live_ports().clock.now())
        return Response({"secret": secret})


class WebhookDeliveries(ApiView):
    """What a webhook was sent."""

    rules = {"GET": WRITE_QUEUES}
    query = {"GET": PAGE}

    @extend_schema(operation_id="webhook_deliveries", summary="List deliveries", responses={200: DeliveryPage})
    def get(self, request: Request, webhook: int) -> Response:
        """List the messages of the last 30 days, newest first, each with what became of it."""
        found = require_webhook(request.user, webhook)
        return self.page(request, found.deliveries.all(), NEWEST_FIRST, delivery_row)
