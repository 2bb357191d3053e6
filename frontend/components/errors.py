"""What pages do with the errors of the scheduler: not found and not allowed become the pages of that name."""

from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec

from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponseBase

from scheduler.core.errors import NotAllowed, NotFound

P = ParamSpec("P")
View = Callable[Concatenate[HttpRequest, P], HttpResponseBase]


def page(view: View[P]) -> View[P]:
    """Turn NotFound into 404 and NotAllowed into 403."""

    @wraps(view)
    def shown(request: HttpRequest, *args: P.args, **kwargs: P.kwargs) -> HttpResponseBase:
        try:
            return view(request, *args, **kwargs)
        except NotFound as error:
            raise Http404(str(error)) from None
        except NotAllowed as error:
            raise PermissionDenied(str(error)) from None

    return shown  # type: ignore[return-value]  # wraps keeps the signature; mypy names its first argument
