"""``/schemas/job``, the OpenAPI document and its page. They tell how the API is used and nothing about the cluster."""

from functools import cache
from typing import Any

from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from scheduler.api.http.permissions import PUBLIC, DenyUnlessAllowed
from scheduler.api.http.throttling import MinuteThrottle
from scheduler.api.http.view import ApiView
from scheduler.core.spec.spec import job_spec_schema


class JobSpecSchema(ApiView):
    """The JSON Schema of a job spec."""

    rules = {"GET": PUBLIC}

    @extend_schema(
        operation_id="job_spec_schema", summary="JSON Schema of a spec", responses={200: OpenApiTypes.OBJECT}
    )
    def get(self, request: Request) -> Response:
        """Return the JSON Schema of a job spec, for editors and clients."""
        return Response(job_spec_schema())


@cache
def openapi_document() -> dict[str, Any]:  # OpenAPI
    """Return the document, which is the same for every caller and takes half a second to make."""
    generator: Any = SchemaGenerator  # drf-spectacular has no types
    found: dict[str, Any] = generator().get_schema(request=None, public=True)
    return found


class _MadeOnce(SchemaGenerator):
    """Gives the document that was made first in this process."""

    def get_schema(self, request: Request | None = None, public: bool = False) -> dict[str, Any]:
        """Return the document; signature of the base class."""
        return openapi_document()


class _Readable(APIView):
    """Public, and limited as every view of the API is."""

    http_method_names = ["get", "head"]
    rules = {"GET": PUBLIC}
    permission_classes = [DenyUnlessAllowed]
    throttle_classes = [MinuteThrottle]


class OpenApiDocument(_Readable, SpectacularAPIView):
    """The OpenAPI document, YAML or JSON by ``Accept`` or ``?format=``."""

    generator_class = _MadeOnce


class DocsPage(_Readable, SpectacularSwaggerSplitView):
    """Swagger UI out of our own static files, its script in a file of its own: the content policy allows no other."""

    url_name = "api-schema"
