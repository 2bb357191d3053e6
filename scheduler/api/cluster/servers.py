"""``/servers``: servers with their GPUs; rename, label, drain, undrain, remove, confirm a size."""

from drf_spectacular.utils import OpenApiExample, OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.cluster.server_documents import ServerDocument, ServerPage
from scheduler.api.http.bodies import Body, ReasonField, read_body
from scheduler.api.http.idempotency import once
from scheduler.api.http.pagination import whole_list
from scheduler.api.http.permissions import ADMIN, READ
from scheduler.api.http.view import ApiView
from scheduler.models import Server
from scheduler.ports import live_ports
from scheduler.selectors.cluster.rows import ServerDetailRow
from scheduler.selectors.cluster.servers import server_detail, server_list
from scheduler.services.cluster.servers import (
    server_change,
    server_drain,
    server_mix_queues,
    server_remove,
    server_size_confirm,
    server_undrain,
)


class DrainBody(Body):
    """Why a server is taken out of use."""

    reason = ReasonField(help_text="Shown beside the server.")


class UndrainBody(Body):
    """Why a server is undrained."""

    reason = ReasonField()


class SizeBody(Body):
    """The size that is confirmed: ``claimed_size`` of the server as the admin read it."""

    num_cpus = serializers.IntegerField()
    memory_bytes = serializers.IntegerField()
    num_gpus = serializers.IntegerField()
    gpu_memory_bytes = serializers.IntegerField(help_text="Of its largest GPU.")
    reason = ReasonField()


class ServerChangeBody(Body):
    """Another name and other labels of a server; what is left out stays."""

    name = serializers.CharField(max_length=63, required=False)
    labels = serializers.ListField(
        child=serializers.CharField(max_length=40), required=False, help_text="All of them; no round looks at them."
    )
    reason = ReasonField()


class RemoveBody(Body):
    """Why a server is removed."""

    reason = ReasonField(help_text="Kept in the audit.")


class Servers(ApiView):
    """All servers."""

    rules = {"GET": READ}

    @extend_schema(operation_id="server_list", summary="List servers", responses={200: ServerPage})
    def get(self, request: Request) -> Response:
        """List every server with its GPUs (or CPU slots, where a machine has no GPU)."""
        return Response(whole_list(server_list(request.user)))


class ServerDetail(ApiView):
    """One server."""

    rules = {"GET": READ, "PUT": ADMIN}

    @extend_schema(
        operation_id="server_change",
        summary="Rename or label a server",
        request=ServerChangeBody,
        responses={200: ServerDocument},
        examples=[
            OpenApiExample(
                "Two labels", {"labels": ["new fans", "rack door broken"], "reason": "Repaired."}, request_only=True
            )
        ],
    )
    def put(self, request: Request, server: str) -> Response:
        """Give a server another name or other labels. Jobs that run on it go on; earlier events tell the new name."""
        found, body = _row(request, server), read_body(request, ServerChangeBody)
        changed = server_change(
            actor=request.user,
            server=found,
            name=body.get("name", found.name),
            labels=body.get("labels", found.labels),
            reason=body["reason"],
            at=live_ports().clock.now(),
        )
        return Response(server_detail(request.user, changed.pk))

    @extend_schema(operation_id="server_read", summary="Read a server", responses={200: ServerDocument})
    def get(self, request: Request, server: str) -> Response:
        """Return one server by id or name."""
        return Response(server_detail(request.user, server))


def _row(request: Request, server: str) -> Server:
    return Server.objects.get(pk=server_detail(request.user, server)["id"])


class ServerDrain(ApiView):
    """Take a server out of use."""

    rules = {"POST": ADMIN}
    repeatable = frozenset({"POST"})

    @extend_schema(
        operation_id="server_drain",
        summary="Drain a server",
        request=DrainBody,
        responses={200: ServerDocument},
        examples=[OpenApiExample("Repair", {"reason": "Fan of GPU 3 is replaced."}, request_only=True)],
    )
    def post(self, request: Request, server: str) -> Response:
        """Move the server's jobs away and start nothing new on it."""

        def make() -> tuple[int, ServerDetailRow, str]:
            reason = read_body(request, DrainBody)["reason"]
            at = live_ports().clock.now()
            changed = server_drain(actor=request.user, server=_row(request, server), reason=reason, at=at)
            return 200, server_detail(request.user, changed.pk), ""

        return once(request, request.data, make)


class ServerRemove(ApiView):
    """Remove a server."""

    rules = {"POST": ADMIN}
    repeatable = frozenset({"POST"})

    @extend_schema(
        operation_id="server_remove",
        summary="Remove a server",
        request=RemoveBody,
        responses={204: OpenApiResponse(description="It is gone. What ran on it keeps its name.")},
        examples=[OpenApiExample("Sold", {"reason": "Replaced by gpu-17."}, request_only=True)],
    )
    def post(self, request: Request, server: str) -> Response:
        """Remove a server on which nothing runs and that is drained, lost, or has never reported, for good.

        Its jobs, GPU-hours, rounds and events keep its name. Its key is void.
        """

        def make() -> tuple[int, dict[str, object], str]:
            reason = read_body(request, RemoveBody)["reason"]
            at = live_ports().clock.now()
            server_remove(actor=request.user, server=_row(request, server), reason=reason, at=at)
            return 204, {}, ""

        return once(request, request.data, make)


class ServerUndrain(ApiView):
    """Undrain a server."""

    rules = {"POST": ADMIN}
    repeatable = frozenset({"POST"})

    @extend_schema(
        operation_id="server_undrain",
        summary="Undrain a server",
        request=UndrainBody,
        responses={200: ServerDocument},
        examples=[OpenApiExample("Repaired", {"reason": "Has a new fan."}, request_only=True)],
    )
    def post(self, request: Request, server: str) -> Response:
        """Let rounds start jobs on a drained server again."""

        def make() -> tuple[int, ServerDetailRow, str]:
            reason = read_body(request, UndrainBody)["reason"]
            at = live_ports().clock.now()
            changed = server_undrain(actor=request.user, server=_row(request, server), reason=reason, at=at)
            return 200, server_detail(request.user, changed.pk), ""

        return once(request, request.data, make)


class ServerSize(ApiView):
    """Confirm how large a server is."""

    rules = {"POST": ADMIN}
    repeatable = frozenset({"POST"})

    @extend_schema(
        operation_id="server_size_confirm",
        summary="Confirm the size of a server",
        request=SizeBody,
        responses={200: ServerDocument},
    )
    def post(self, request: Request, server: str) -> Response:
        """Believe the size that a server claims; until then only the size before it is offered to jobs."""

        def make() -> tuple[int, ServerDetailRow, str]:
            size = read_body(request, SizeBody)
            reason, at = size.pop("reason"), live_ports().clock.now()
            found = _row(request, server)
            changed = server_size_confirm(actor=request.user, server=found, size=size, reason=reason, at=at)
            return 200, server_detail(request.user, changed.pk), ""

        return once(request, request.data, make)


class MixBody(Body):
    """Whether queues may mix."""

    allowed = serializers.BooleanField(help_text="Whether jobs of several queues may run on it.")
    reason = ReasonField()


class ServerMix(ApiView):
    """Whether jobs of several queues may run on a server that does not keep them apart."""

    rules = {"POST": ADMIN}
    repeatable = frozenset({"POST"})

    @extend_schema(
        operation_id="server_mix_queues",
        summary="Let queues mix on a server",
        request=MixBody,
        responses={200: ServerDocument},
        examples=[OpenApiExample("One team", {"allowed": True, "reason": "One team alone."}, request_only=True)],
    )
    def post(self, request: Request, server: str) -> Response:
        """Let jobs of several queues run on a server although nothing keeps them apart there, or no longer."""

        def make() -> tuple[int, ServerDetailRow, str]:
            body, at = read_body(request, MixBody), live_ports().clock.now()
            changed = server_mix_queues(actor=request.user, server=_row(request, server), at=at, **body)
            return 200, server_detail(request.user, changed.pk), ""

        return once(request, request.data, make)
