"""``/queues/{name}/usage``: GPU-hours, as JSON or CSV; ``/loans``: lent and borrowed; ``/preemptions``: taken away."""

from datetime import datetime, timedelta
from typing import Literal, get_args

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http.errors import ParametersInvalid
from scheduler.api.http.parameters import choice, instant
from scheduler.api.http.permissions import READ
from scheduler.api.http.renderers import Csv
from scheduler.api.http.view import ApiView
from scheduler.api.queues.documents import LoansDocument, TakenDocument, UsageDocument
from scheduler.core.model.errors import FieldError
from scheduler.ports import live_ports
from scheduler.selectors.queues.taken import taken
from scheduler.selectors.queues.usage import loan_ledger, usage
from scheduler.selectors.visibility import require_queue

LATELY = timedelta(days=7)
LONGEST = timedelta(days=366)
UsageColumn = Literal["queue", "user", "allocated_gpu_hours", "measured_gpu_hours", "busy_gpu_hours"]
COLUMNS: tuple[UsageColumn, ...] = get_args(UsageColumn)
CSV_IS = f"The rows with a head: {', '.join(COLUMNS)}. They are those of the JSON; what was not measured is empty."
RANGE = (
    instant("since", "Begin of the range; 7 days before its end without."),
    instant("until", "End of the range; now without."),
)


class _OfRange(ApiView):
    """Something over a range of time."""

    rules = {"GET": READ}
    query = {"GET": RANGE}

    def range(self) -> dict[str, datetime]:
        """Return the asked range. Raises ParametersInvalid."""
        until = min(self.params["until"] or live_ports().clock.now(), live_ports().clock.now())
        since = self.params["since"] or until - LATELY
        if not timedelta(0) < until - since <= LONGEST:
            detail = f"since must be before until, and at most {LONGEST.days} days before it."
            raise ParametersInvalid([FieldError(pointer="?since", code="range", detail=detail)])
        return {"since": since, "until": until}


class Usage(_OfRange):
    """What a queue and its users held."""

    renderer_classes = [JSONRenderer, Csv]
    query = {"GET": (*RANGE, choice("format", "The same as an Accept header, for links.", ("json", "csv")))}

    @extend_schema(
        operation_id="queue_usage",
        summary="Read the GPU-hours of a queue",
        responses={
            (200, "application/json"): UsageDocument,
            (200, "text/csv"): OpenApiResponse(OpenApiTypes.STR, description=CSV_IS),
        },
    )
    def get(self, request: Request, name: str) -> Response:
        """Return GPU-hours allocated and busy by user, of the queue and those below it. CSV with `Accept: text/csv`."""
        found = usage(require_queue(request.user, name), **self.range())
        if self.params["format"]:
            renderer = Csv() if self.params["format"] == "csv" else JSONRenderer()
            request.accepted_renderer, request.accepted_media_type = renderer, renderer.media_type
        if request.accepted_renderer.format != "csv":
            return Response(found)
        rows = [[row[column] for column in COLUMNS] for row in found["rows"]]
        file_name = f"usage-{name.replace('/', '-')}.csv"
        return Response(
            {"head": COLUMNS, "rows": rows}, headers={"Content-Disposition": f'attachment; filename="{file_name}"'}
        )


class Loans(_OfRange):
    """What a queue lent and borrowed."""

    @extend_schema(operation_id="queue_loans", summary="Read the loans of a queue", responses={200: LoansDocument})
    def get(self, request: Request, name: str) -> Response:
        """Return the GPU-hours that the queue lent and borrowed, and what is lent now."""
        return Response(loan_ledger(request.user, require_queue(request.user, name), **self.range()))


class Preemptions(_OfRange):
    """What took GPUs from a queue."""

    @extend_schema(
        operation_id="queue_preemptions",
        summary="Read what took GPUs from a queue",
        responses={200: TakenDocument},
    )
    def get(self, request: Request, name: str) -> Response:
        """Return preemptions and recalls of its jobs by the queue, person and job that took the place, and by loser."""
        return Response(taken(request.user, require_queue(request.user, name), **self.range()))
