"""``/secrets`` and ``/queues/{name}/secrets``: values that jobs name. They are written and never read."""

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http.authentication import signed_in
from scheduler.api.http.bodies import Body, read_body
from scheduler.api.http.documents import document_of, page_of
from scheduler.api.http.pagination import whole_list
from scheduler.api.http.permissions import READ, WRITE_JOBS, WRITE_QUEUES
from scheduler.api.http.view import ApiView
from scheduler.models import Queue
from scheduler.ports import live_ports
from scheduler.selectors.accounts.rows import KeptSecretRow
from scheduler.selectors.accounts.secrets import secret_row, secrets_of, secrets_of_queue
from scheduler.selectors.visibility import require_queue
from scheduler.services.secrets.store import MOST_BYTES, secret_delete, secret_set


class SecretBody(Body):
    """The value of a secret."""

    value = serializers.CharField(
        max_length=MOST_BYTES,
        allow_blank=True,  # refused by the service, with the reason
        trim_whitespace=False,
        write_only=True,
        help_text="At least 8 characters, no blank at its ends. No answer ever holds it.",
    )


KeptSecretDocument = document_of(KeptSecretRow, "KeptSecretDocument")
KeptSecretPage = page_of(KeptSecretDocument, "KeptSecretPage", "All of them.")
KEPT = {200: KeptSecretDocument, 201: KeptSecretDocument}
GONE = {204: OpenApiResponse(description="It is gone. Jobs that run keep its value; jobs that wait and name it fail.")}
EXAMPLE = OpenApiExample("A key", {"value": "local-0123456789abcdef"}, request_only=True)


def _kept(request: Request, queue: Queue | None, secret: str) -> Response:
    value = read_body(request, SecretBody)["value"]
    at = live_ports().clock.now()
    kept, is_new = secret_set(actor=request.user, queue=queue, name=secret, value=value, at=at)
    return Response(secret_row(kept), status=201 if is_new else 200)


class Secrets(ApiView):
    """Your own secrets."""

    rules = {"GET": READ}

    @extend_schema(operation_id="secret_list", summary="List your secrets", responses={200: KeptSecretPage})
    def get(self, request: Request) -> Response:
        """List your own secrets by name, without their values."""
        return Response(whole_list([secret_row(secret) for secret in secrets_of(signed_in(request))]))


class SecretDetail(ApiView):
    """One of your own secrets."""

    rules = {"PUT": WRITE_JOBS, "DELETE": WRITE_JOBS}

    @extend_schema(
        operation_id="secret_set", summary="Set a secret", request=SecretBody, responses=KEPT, examples=[EXAMPLE]
    )
    def put(self, request: Request, secret: str) -> Response:
        """Keep a value for your jobs, which name it: `env: {WANDB_API_KEY: {secret: wandb}}`.

        An earlier value is replaced; jobs that run keep the one that they started with.
        """
        return _kept(request, None, secret)

    @extend_schema(operation_id="secret_delete", summary="Delete a secret", responses=GONE)
    def delete(self, request: Request, secret: str) -> Response:
        """Delete a secret of yours."""
        secret_delete(actor=request.user, queue=None, name=secret, at=live_ports().clock.now())
        return Response(status=204)


class QueueSecrets(ApiView):
    """The secrets of a queue."""

    rules = {"GET": READ}

    @extend_schema(
        operation_id="queue_secret_list", summary="List the secrets of a queue", responses={200: KeptSecretPage}
    )
    def get(self, request: Request, name: str) -> Response:
        """List the secrets that jobs of the queue may name, without their values. For its members."""
        queue = require_queue(request.user, name)
        return Response(whole_list([secret_row(secret) for secret in secrets_of_queue(request.user, queue)]))


class QueueSecret(ApiView):
    """One secret of a queue."""

    rules = {"PUT": WRITE_QUEUES, "DELETE": WRITE_QUEUES}

    @extend_schema(
        operation_id="queue_secret_set",
        summary="Set a secret of a queue",
        request=SecretBody,
        responses=KEPT,
        examples=[EXAMPLE],
    )
    def put(self, request: Request, name: str, secret: str) -> Response:
        """Keep a value for the jobs of all members of a queue. Leads of the queue."""
        return _kept(request, require_queue(request.user, name), secret)

    @extend_schema(operation_id="queue_secret_delete", summary="Delete a secret of a queue", responses=GONE)
    def delete(self, request: Request, name: str, secret: str) -> Response:
        """Delete a secret of a queue. Leads of the queue."""
        queue = require_queue(request.user, name)
        secret_delete(actor=request.user, queue=queue, name=secret, at=live_ports().clock.now())
        return Response(status=204)
