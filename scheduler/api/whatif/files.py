"""``/whatif/traces``: trace files that scenarios start from."""

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.exceptions import NotFound
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http import parameters
from scheduler.api.http.pagination import NEWEST_FIRST, PAGE
from scheduler.api.http.parsers import RawBody, body_stream
from scheduler.api.http.permissions import WHAT_IF
from scheduler.api.http.view import ApiView
from scheduler.api.whatif.documents import TraceFileDocument, TraceFilePage
from scheduler.api.whatif.views import refuse_others
from scheduler.core.spec.reading import quoted
from scheduler.ports import live_ports
from scheduler.selectors.whatif import trace_file_row, trace_files_visible
from scheduler.services.whatif.files import most_bytes, trace_file_create, trace_file_delete


class TraceFiles(ApiView):
    """Uploaded traces."""

    rules = {"GET": WHAT_IF, "POST": WHAT_IF}
    query = {"GET": PAGE, "POST": (parameters.text("name", "What the file is called.", most=120),)}
    parser_classes = [RawBody]
    most_body_bytes = most_bytes()

    @extend_schema(operation_id="trace_file_list", summary="List uploaded traces", responses={200: TraceFilePage})
    def get(self, request: Request) -> Response:
        """List the traces that you may use, newest first."""
        refuse_others(request)
        return self.page(request, trace_files_visible(request.user), NEWEST_FIRST, trace_file_row)

    @extend_schema(
        operation_id="trace_file_create",
        summary="Upload a trace",
        request={"application/octet-stream": OpenApiTypes.BINARY},
        responses={201: TraceFileDocument, 413: OpenApiResponse(description="It is larger than a trace may be.")},
    )
    def post(self, request: Request) -> Response:
        """Keep a trace in any format that is read, plain, gzip or Parquet, up to `TRACE_MOST_MIB` (256 MiB).

        The first rows are read at once, in a process with limits, the others when a scenario starts from it; errors
        name the line. More than `TRACE_MOST_ROWS` (2,000,000) rows are refused.
        """
        file = trace_file_create(
            actor=request.user,
            name=self.params["name"] or "trace",
            content=body_stream(request),
            at=live_ports().clock.now(),
        )
        return Response(trace_file_row(file), status=201)


class TraceFileDetail(ApiView):
    """One uploaded trace."""

    rules = {"DELETE": WHAT_IF}

    @extend_schema(
        operation_id="trace_file_delete",
        summary="Delete a trace",
        responses={204: OpenApiResponse(description="It is gone."), 409: OpenApiResponse(description="It is used.")},
    )
    def delete(self, request: Request, file: str) -> Response:
        """Forget a trace that no scenario starts from."""
        found = trace_files_visible(request.user).filter(pk=file.upper()).first() if len(file) == 26 else None
        if found is None:
            raise NotFound(f"There is no trace {quoted(file)} that you may see.")
        trace_file_delete(actor=request.user, file=found, at=live_ports().clock.now())
        return Response(status=204)
