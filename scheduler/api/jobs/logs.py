"""``/jobs/{id}/logs``: the log of one attempt, its end or from an offset; ``/logs/stream`` follows it."""

from typing import Annotated, TypedDict

from django.http import HttpResponse, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.exceptions import NotFound
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http import parameters
from scheduler.api.http.documents import document_of
from scheduler.api.http.permissions import READ
from scheduler.api.http.renderers import EventStream, PlainText
from scheduler.api.http.view import ApiView
from scheduler.api.jobs.log_stream import END, Follower, LogPlace
from scheduler.models import Attempt, Job
from scheduler.selectors.jobs.logs import LogChunk, log_from, log_tail
from scheduler.selectors.visibility import require_job

MOST_LINES = 10_000
MOST_BYTES = 1024 * 1024
TAIL = parameters.integer("tail", "So many lines from the end.", most=MOST_LINES, default=1000)
ATTEMPT = parameters.integer("attempt", "Number of the attempt; the newest when absent.", least=1, most=1_000_000)
RANK = parameters.integer(
    "rank",
    "Process of a gang, by number: a rank, or with `launch: {per: server}` a server. 0 when absent.",
    most=1_000_000,
)
OFFSET = parameters.integer("offset", "Begin at this byte of the log instead of near its end.")

NOT_STARTED, NEVER_STARTED = (
    LogChunk(start_offset=0, end_offset=0, text="", truncated=False, reason=reason)
    for reason in ("The job has not started yet.", "It never started, so there is no log.")
)


class LogRow(TypedDict):
    """A piece of a log."""

    attempt: Annotated[int | None, "Number of the attempt; null before the first."]
    start_offset: Annotated[int, "Byte of the whole log where the text begins."]
    end_offset: Annotated[int, "Byte after the text; pass it as `offset` to read on."]
    truncated: Annotated[bool, "Whether there is or was log before the text."]
    reason: Annotated[str, "Why there is nothing to read."]
    text: str


LogDocument = document_of(LogRow, "LogDocument")


def require_attempt(job: Job, number: int | None) -> Attempt | None:
    """Return an attempt by number, or the newest one, or None when there is none yet. Raises NotFound."""
    attempts = job.attempts.order_by("-number")
    if number is None:
        return attempts.first()
    found = attempts.filter(number=number).first()
    if found is None:
        raise NotFound(f"J-{job.number} has no attempt {number}.")
    return found


class JobLogs(ApiView):
    """The log of an attempt."""

    rules = {"GET": READ}
    query = {"GET": (TAIL, ATTEMPT, RANK, OFFSET)}
    renderer_classes = [JSONRenderer, PlainText]

    @extend_schema(
        operation_id="job_logs",
        summary="Read a log",
        responses={
            (200, "application/json"): LogDocument,
            (200, "text/plain"): OpenApiResponse(OpenApiTypes.STR, description="The text alone."),
        },
    )
    def get(self, request: Request, job: str) -> Response:
        """Return the end of a log, or at most 1 MiB from `offset` on. `Accept: text/plain` gives the text alone."""
        found = require_job(request.user, job)
        attempt = require_attempt(found, self.params["attempt"])
        offset, rank = self.params["offset"], self.params["rank"]
        if attempt is None:
            chunk = NOT_STARTED if found.ended_at is None else NEVER_STARTED
        elif offset is None:
            chunk = log_tail(attempt, lines=self.params["tail"], rank=rank)
        else:
            chunk = log_from(attempt, offset, most_bytes=MOST_BYTES, rank=rank)
        body: LogRow = {
            "attempt": attempt.number if attempt else None,
            "start_offset": chunk.start_offset,
            "end_offset": chunk.end_offset,
            "truncated": chunk.truncated,
            "reason": chunk.reason,
            "text": chunk.text,
        }
        return Response(body)


class JobLogStream(ApiView):
    """A log as it grows."""

    http_method_names = ["get"]  # a HEAD would follow the log without sending it
    rules = {"GET": READ}
    query = {"GET": (TAIL, ATTEMPT, RANK, OFFSET)}
    renderer_classes = [EventStream, JSONRenderer]

    @extend_schema(
        operation_id="job_log_stream",
        summary="Follow a log",
        parameters=[
            OpenApiParameter(
                name="Last-Event-ID",
                location=OpenApiParameter.HEADER,
                type={"type": "string", "examples": ["2-18734"]},
                description="`<attempt>-<byte offset>` of the last event that arrived; the stream goes on after it.",
            )
        ],
        responses={
            (200, "text/event-stream"): OpenApiResponse(
                OpenApiTypes.STR,
                description=(
                    "Events `log` with data `{attempt, start_offset, end_offset, text}` and id "
                    "`<attempt>-<end_offset>`; at last one event `end` with data `{state}` and id `end`."
                ),
            ),
            204: OpenApiResponse(description="The last event was `end`; a browser then stops to reconnect."),
        },
    )
    def get(self, request: Request, job: str) -> HttpResponse | StreamingHttpResponse:
        """Follow the log as server-sent events, over all attempts or only `attempt`, until its end.

        Begins at `Last-Event-ID`, else at `offset`, else `tail` lines before the end. Quiet times carry a comment every
        15 seconds.
        """
        found = require_job(request.user, job)
        last = request.headers.get("Last-Event-ID", "")
        if last == END:
            return HttpResponse(status=204)
        place = LogPlace.parse(last)
        only, rank = self.params["attempt"], self.params["rank"]
        if place is None or only not in {None, place.attempt}:
            attempt = require_attempt(found, only)
            offset = self.params["offset"]
            if attempt is not None and offset is None:
                offset = log_tail(attempt, lines=self.params["tail"], rank=rank).start_offset
            place = LogPlace(attempt=attempt.number if attempt else 1, offset=offset or 0)
        follower = Follower(request=request, job=found, place=place, only_attempt=only, rank=rank)
        return StreamingHttpResponse(
            follower.events(),
            content_type="text/event-stream",
            headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
        )
