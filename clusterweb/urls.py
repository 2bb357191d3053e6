"""URL map: health for machines, REST under ``/api/v1/``, pages for people."""

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import include, path
from django.views.defaults import page_not_found

from scheduler.api.errors import problem_of, render

urlpatterns = [
    path("", include("scheduler.api.health_urls")),
    path("api/v1/", include("scheduler.api.urls")),
    path("", include("frontend.urls")),
]


def handler404(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer an address that no route has: programs get a problem, people a page."""
    if request.path.startswith("/api/"):
        return render(problem_of(Http404()), request)
    return page_not_found(request, exception)
