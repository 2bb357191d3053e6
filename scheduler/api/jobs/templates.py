"""``/templates``: parts of specs that the members of a queue begin from."""

from typing import Any

from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http.bodies import Body, read_body
from scheduler.api.http.documents import document_of
from scheduler.api.http.idempotency import once
from scheduler.api.http.openapi import MEANING, ProblemDocument
from scheduler.api.http.pagination import PAGE, Order, PageFields
from scheduler.api.http.parsers import JsonBody, YamlBody
from scheduler.api.http.permissions import READ, WRITE_JOBS
from scheduler.api.http.view import ApiView
from scheduler.core.spec.reading import shown
from scheduler.ports import live_ports
from scheduler.selectors.queues.rows import TemplateRow
from scheduler.selectors.queues.saved import template_row, templates_visible
from scheduler.services.queues.saved import NAME_CHARS, template_create, template_delete

BY_NAME = Order(name="name", column="name", tie="id")


class TemplateBody(Body):
    """A new template."""

    queue = serializers.CharField(max_length=120, help_text="Whose members begin from it.")
    name = serializers.CharField(max_length=NAME_CHARS)
    spec = serializers.DictField(help_text="Part of a spec; whatever is missing is left to who begins from it.")


TemplateDocument = document_of(TemplateRow, "TemplateDocument")


class TemplatePage(PageFields):
    """A page of templates."""

    results = TemplateDocument(many=True)


class Templates(ApiView):
    """Templates of the queues that you see."""

    rules = {"GET": READ, "POST": WRITE_JOBS}
    query = {"GET": PAGE}
    repeatable = frozenset({"POST"})
    parser_classes = [JsonBody, YamlBody]

    @extend_schema(operation_id="template_list", summary="List templates", responses={200: TemplatePage})
    def get(self, request: Request) -> Response:
        """List the templates of the queues that you see."""
        return self.page(request, templates_visible(request.user), BY_NAME, template_row)

    @extend_schema(
        operation_id="template_create",
        summary="Create a template",
        request={"application/json": TemplateBody, "application/yaml": TemplateBody},
        responses={
            201: OpenApiResponse(TemplateDocument, description="`Location` is its address."),
            (404, "application/problem+json"): OpenApiResponse(ProblemDocument, description=MEANING["404"]),
        },
    )
    def post(self, request: Request) -> Response:
        """Keep part of a spec for the members of a queue that you may submit to."""
        body = read_body(request, TemplateBody)

        def make() -> tuple[int, Any, str]:
            template = template_create(actor=request.user, **body, at=live_ports().clock.now())
            return 201, template_row(template), f"/api/v1/templates/{template.pk}"

        return once(request, body, make)


class TemplateDetail(ApiView):
    """One template."""

    rules = {"DELETE": WRITE_JOBS}

    @extend_schema(operation_id="template_delete", summary="Remove a template", responses={204: None})
    def delete(self, request: Request, template: int) -> Response:
        """Remove a template that you made, or one of a queue that you lead; jobs made from it stay as they are."""
        if template >= 2**63:
            raise NotFound(f"There is no template {shown(template)} that you may see.")
        template_delete(actor=request.user, template_id=template, at=live_ports().clock.now())
        return Response(status=204)
