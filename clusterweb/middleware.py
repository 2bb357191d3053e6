"""Request id, content security policy, and sign-in as the default for every page."""

import re
import secrets
from collections.abc import Callable
from urllib.parse import quote, urlsplit

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import resolve_url

Next = Callable[[HttpRequest], HttpResponse]

# The few paths that answer without a sign-in. The REST API and the wall deny by themselves.
PUBLIC = re.compile(r"^/(sign-in|healthz|readyz|version|favicon\.ico|static/|metrics|api/|wall(/open)?$)")
POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; style-src 'self' 'unsafe-inline'; script-src 'self'; "
    "connect-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; form-action 'self'"
)


class RequestIdMiddleware:
    """Give each request an id: in its log lines, its error bodies and the ``X-Request-Id`` header."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.request_id = secrets.token_hex(6)  # type: ignore[attr-defined]  # read by errors and templates
        with structlog.contextvars.bound_contextvars(request_id=request.request_id):  # type: ignore[attr-defined]
            response = self.get_response(request)
        response["X-Request-Id"] = request.request_id  # type: ignore[attr-defined]
        return response


class SecurityHeadersMiddleware:
    """Forbid scripts that are not ours, and plain HTTP where people reach the site by HTTPS.

    Inline styles stay: Plotly and progress bars set them. Django would leave the second header out of answers that a
    proxy asks for by plain HTTP; browsers ignore it where no TLS is.
    """

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.setdefault("Content-Security-Policy", POLICY)
        if settings.SECURE_HSTS_SECONDS:
            response.setdefault("Strict-Transport-Security", f"max-age={settings.SECURE_HSTS_SECONDS}")
        return response


class SignInRequiredMiddleware:
    """Send anonymous requests to the sign-in page, for every page that does not allow them."""

    def __init__(self, get_response: Next) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        if request.user.is_authenticated or PUBLIC.match(request.path):
            return self.get_response(request)
        target, more = request.get_full_path(), ""
        if request.method not in {"GET", "HEAD"}:  # many routes only take a POST: back to the page with the form
            target, more = _page_before(request) or target, "&unsent=1"
        return HttpResponseRedirect(f"{resolve_url(settings.LOGIN_URL)}?next={quote(target)}{more}")


def _page_before(request: HttpRequest) -> str:
    """Return the path of the page of this site that a request came from; empty for none."""
    before = urlsplit(request.headers.get("Referer", ""))
    if before.netloc != request.get_host():
        return ""
    return before.path + (f"?{before.query}" if before.query else "")
