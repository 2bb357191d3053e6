"""``/arrays``: all arrays, and the jobs of one together."""

from collections.abc import Callable
from functools import partial
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from scheduler.api.http.documents import document_of, page_of
from scheduler.api.http.idempotency import once
from scheduler.api.http.pagination import PAGE, Order, Page
from scheduler.api.http.permissions import READ, WRITE_JOBS
from scheduler.api.http.view import ApiView
from scheduler.models import Job
from scheduler.ports import live_ports
from scheduler.selectors.jobs.many.arrays import (
    ArrayDetail,
    ArrayJobRow,
    ArrayRow,
    array_detail,
    array_jobs,
    array_rows,
    arrays_visible,
)
from scheduler.services.jobs.arrays import array_cancel, array_retry

ArrayDocument = document_of(ArrayDetail, "ArrayDocument", jobs=document_of(ArrayJobRow, "ArrayJobDocument"))


ArrayRowDocument = document_of(ArrayRow)
ArrayPage = page_of(ArrayRowDocument, "ArrayPage", "A page of arrays.")
NEWEST_ARRAY = Order(name="-array_number", column="array_number", tie="array_number")


class Arrays(ApiView):
    """All arrays."""

    rules = {"GET": READ}
    query = {"GET": PAGE}

    @extend_schema(operation_id="array_list", summary="List arrays", responses={200: ArrayPage})
    def get(self, request: Request) -> Response:
        """List the arrays of your queues with their jobs by state, newest first."""
        found = Page(rows=arrays_visible(request.user), order=NEWEST_ARRAY, params=self.params)
        rows = {row["number"]: row for row in array_rows(request.user, found.rows)}
        return Response(found.body(request, lambda first: rows[first.array_number or 0]))


class ArrayRead(ApiView):
    """One array."""

    rules = {"GET": READ}
    names_devices = True

    @extend_schema(operation_id="array_read", summary="Read an array", responses={200: ArrayDocument})
    def get(self, request: Request, array: str) -> Response:
        """Return the newest job of each index; `array` is `A-` and the number of its first job."""
        return Response(array_detail(request.user, array_jobs(request.user, array)))


class _ArrayAction(ApiView):
    """Something done with all jobs of an array."""

    rules = {"POST": WRITE_JOBS}
    names_devices = True
    repeatable = frozenset({"POST"})

    def act(self, request: Request, array: str, service: Callable[..., list[Job]]) -> Response:
        """Call the service once and answer with the array."""

        def make() -> tuple[int, Any, str]:
            jobs = service(actor=request.user, key=array, at=live_ports().clock.now())
            return 200, array_detail(request.user, jobs), ""

        return once(request, None, make)


class ArrayCancel(_ArrayAction):
    """End an array."""

    @extend_schema(operation_id="array_cancel", summary="Cancel an array", request=None, responses={200: ArrayDocument})
    def post(self, request: Request, array: str) -> Response:
        """End all jobs of an array that have not ended."""
        return self.act(request, array, array_cancel)


class ArrayRetry(_ArrayAction):
    """Try again what failed."""

    @extend_schema(
        operation_id="array_retry",
        summary="Retry failed jobs of an array",
        request=None,
        responses={200: ArrayDocument},
    )
    def post(self, request: Request, array: str) -> Response:
        """Submit the jobs of an array that failed once more, with the same indexes, in the same array."""
        return self.act(request, array, partial(array_retry, ids=live_ports().ids))
