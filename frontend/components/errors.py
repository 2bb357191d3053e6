"""Error pages: NotFound becomes 404, NotAllowed 403; a failure shows the id of its request, as the logs do."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseBase, HttpResponseServerError
from django.shortcuts import render
from django.template.loader import render_to_string

from scheduler.core.model.errors import NotAllowed, NotFound

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


class ForLeads(NotFound):
    """A page for leads and admins alone: to others it answers with this message, not with "not found"."""


def failed(request: HttpRequest) -> HttpResponse:
    """Show the page of a request that failed; the logs name it by the same id."""
    return HttpResponseServerError(render_to_string("500.html", {"request_id": getattr(request, "request_id", "")}))


def page(view: View[P]) -> View[P]:
    """Turn NotFound into 404, with the message of ForLeads, and NotAllowed into 403."""

    @wraps(view)
    def shown(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        try:
            return view(request, *args, **kwargs)
        except ForLeads as error:
            return render(request, "404.html", {"why": str(error)}, status=404)
        except NotFound as error:
            raise Http404(str(error)) from None
        except NotAllowed as error:
            raise PermissionDenied(str(error)) from None

    return shown  # type: ignore[return-value]  # wraps keeps the signature; mypy names its first argument
