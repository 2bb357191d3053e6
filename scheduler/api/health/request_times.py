"""Response times of this process for ``/metrics``. A stream counts until its answer begins."""

import time
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from prometheus_client import Histogram

BUCKETS_S = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
REQUEST_TIMES = Histogram(
    "clusterweb_http_request_duration_seconds",
    "Time to answer a request, of this web process since it started.",
    ["method", "route", "code"],
    buckets=BUCKETS_S,
    registry=None,  # ``metrics`` adds it to the values from the database
)
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})


class RequestTimesMiddleware:
    """Note the time of each request under the name of its route, never its path: paths name jobs."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        begun_s = time.perf_counter()
        response = self.get_response(request)
        route = request.resolver_match.view_name if request.resolver_match else ""
        method = request.method if request.method in METHODS else "other"
        REQUEST_TIMES.labels(method, route, str(response.status_code)).observe(time.perf_counter() - begun_s)
        return response
