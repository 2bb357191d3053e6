"""404 for every unknown path below ``/api/``: a problem (RFC 9457), never an HTML page."""

from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, resolve
from django.views.decorators.csrf import csrf_exempt

from scheduler.api.http.errors import TITLES, Problem, render


def _other_spelling(path: str) -> str | None:
    other = path.removesuffix("/") if path.endswith("/") else f"{path}/"
    try:
        return None if resolve(other).func is not_found else other
    except Resolver404:
        return None


@csrf_exempt
def not_found(request: HttpRequest, path: str = "") -> HttpResponse:
    """Answer 404, naming the route when only a slash is wrong."""
    other = _other_spelling(request.path_info)
    detail = f"The path is {other}." if other else "There is no such path. All paths: /api/v1/docs/."
    return render(Problem(status=404, code="no_such_path", title=TITLES[404], detail=detail), request)
