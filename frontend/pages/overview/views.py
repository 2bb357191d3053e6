"""The overview: the cluster and the reader's jobs on one screen."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render


def overview(request: HttpRequest) -> HttpResponse:
    """Show the overview."""
    return render(request, "overview/overview.html", {})
