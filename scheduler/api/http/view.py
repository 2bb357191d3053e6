"""Base class of every view of the API: denies by default, parses query parameters strictly, counts requests."""

from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpResponseBase
from rest_framework.exceptions import ParseError
from rest_framework.negotiation import DefaultContentNegotiation
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.api.http.openapi import DEVICES_HEADER, ApiSchema
from scheduler.api.http.pagination import Order, Page, Row
from scheduler.api.http.parameters import QueryParameter, parse_parameters
from scheduler.api.http.parsers import MOST_BODY_BYTES, JsonBody, refuse_large_body
from scheduler.api.http.permissions import DenyUnlessAllowed, Rule
from scheduler.api.http.throttling import MinuteThrottle
from scheduler.selectors.cluster.servers import device_kinds


class _ByAcceptHeader(DefaultContentNegotiation):
    """The ``format`` query parameter of DRF means nothing here, so it is refused like any unknown one."""

    settings = SimpleNamespace(URL_FORMAT_OVERRIDE=None)  # type: ignore[assignment]  # all that it reads


_PROBLEMS_IN_WORDS = frozenset({400, 409})  # those of requests whose user is known


class ApiView(APIView):
    """One resource.

    Attributes:
        rules: Who may call each method; a method without a rule is refused.
        query: Query parameters of each method; any other is refused.
        repeatable: Methods that understand ``Idempotency-Key``; the others refuse it rather than ignore it.
        versioned: Methods that need ``If-Match``.
        names_devices: Whether a 200 says in a header what the devices of the cluster are; its sentences always say GPU.
            Problems with sentences about a request always do.
        most_body_bytes: A longer body is refused before it is read.
    """

    http_method_names = ["get", "post", "put", "patch", "delete", "head"]
    schema = ApiSchema()
    permission_classes = [DenyUnlessAllowed]
    throttle_classes = [MinuteThrottle]
    parser_classes = [JsonBody]
    content_negotiation_class = _ByAcceptHeader
    rules: ClassVar[Mapping[str, Rule]] = {}
    query: ClassVar[Mapping[str, Sequence[QueryParameter]]] = {}
    repeatable: ClassVar[frozenset[str]] = frozenset()
    versioned: ClassVar[frozenset[str]] = frozenset()
    names_devices: ClassVar[bool] = False
    most_body_bytes: ClassVar[int] = MOST_BODY_BYTES
    params: Mapping[str, Any]  # parsed query parameters; each parser knows its type

    def initial(self, request: Request, *args: object, **kwargs: object) -> None:
        """Authenticate, check the rule, count the request, then read its query parameters."""
        refuse_large_body(request, self.most_body_bytes)
        super().initial(request, *args, **kwargs)
        method = "GET" if request.method == "HEAD" else str(request.method)
        if "Idempotency-Key" in request.headers and method not in self.repeatable:
            raise ParseError("Idempotency-Key means nothing here: it is for POST requests that can be repeated.")
        self.params = parse_parameters(request.query_params, self.query.get(method, ()))

    def page(
        self, request: Request, rows: QuerySet[Row], order: Order, render: Callable[[Row], Mapping[str, object]]
    ) -> Response:
        """Answer with the page of ``rows`` that the query asks for."""
        return Response(Page(rows=rows, order=order, params=self.params).body(request, render))

    def finalize_response(  # type: ignore[override]  # streams and problems are no DRF responses
        self, request: Request, response: HttpResponseBase, *args: object, **kwargs: object
    ) -> HttpResponseBase:
        """Add the headers of the rate limit, and the one that names the devices."""
        allowance = getattr(request, "allowance", None)
        for name, value in (allowance.headers() if allowance else {}).items():
            response[name] = value
        response.headers.setdefault("Cache-Control", "no-store")
        if response.status_code in _PROBLEMS_IN_WORDS or (self.names_devices and response.status_code == 200):
            response[DEVICES_HEADER] = ", ".join(device_kinds(request.user))
        return super().finalize_response(request, response, *args, **kwargs)  # type: ignore[arg-type]


def with_text_id(row: Mapping[str, object]) -> dict[str, object]:
    """Return a row whose id is text, as everywhere in the API, also where the database counts; null stays null."""
    return {**row, "id": None if row["id"] is None else str(row["id"])}
