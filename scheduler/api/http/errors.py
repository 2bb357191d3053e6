"""Every error answer of the API: ``application/problem+json`` (RFC 9457), with one entry per bad field.

APIException
├── BodyTooLarge            413
├── PreconditionFailed      412: the object changed since the caller read it
├── PreconditionRequired    428: a write that needs If-Match came without
├── IdempotencyKeyReused    422: the key belongs to another request
├── FirstStillRuns          409: the first request with the key is not done yet
├── TooManyStreams          429: the user has as many logs or downloads open as one may
├── RangeNotSatisfiable     416: the file is shorter than that
└── ParametersInvalid       400: query parameters that are unknown or out of range

Errors of the scheduler (``scheduler.core.model.errors``) and of Django are mapped here and nowhere else. What was not
expected is logged with its traceback and answered without it.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from django.core.exceptions import PermissionDenied as DjangoPermissionDenied
from django.core.exceptions import RequestDataTooBig, SuspiciousOperation
from django.db import OperationalError
from django.http import Http404, HttpRequest, HttpResponse
from rest_framework import exceptions
from rest_framework.renderers import JSONRenderer

from scheduler.core.model import errors as core

log = logging.getLogger(__name__)

CONTENT_TYPE = "application/problem+json"
_BINARY = re.compile("octet-stream|zip|tar|x-xz|gzip", re.IGNORECASE)
NOT_FOUND = "There is no such object, or you may not see it."


class BodyTooLarge(exceptions.APIException):
    status_code = 413
    default_code = "body_too_large"


class PreconditionFailed(exceptions.APIException):
    status_code = 412
    default_code = "precondition_failed"
    default_detail = "It changed since you read it. Read it again and send the new ETag in If-Match."


class PreconditionRequired(exceptions.APIException):
    status_code = 428
    default_code = "precondition_required"
    default_detail = "Send the ETag of what you read in If-Match, so that nobody's change is overwritten."


class IdempotencyKeyReused(exceptions.APIException):
    status_code = 422
    default_code = "idempotency_key_reused"
    default_detail = "This Idempotency-Key was used for another request. Take a new key."


class FirstStillRuns(exceptions.APIException):
    """Whether the first request succeeds is open, unlike with every other 409."""

    status_code = 409
    default_code = "first_still_runs"
    default_detail = "The first request with this Idempotency-Key still runs. Send it again in a moment."


class TooManyStreams(exceptions.APIException):
    """The message says what to do."""

    status_code = 429
    default_code = "too_many_streams"

    def __init__(self, open_already: str, *, wait_s: int) -> None:
        super().__init__(f"You {open_already} already. Close one, or try again in {wait_s} s if none is open.")
        self.wait = wait_s


class RangeNotSatisfiable(exceptions.APIException):
    status_code = 416
    default_code = "range_not_satisfiable"

    def __init__(self, size: int) -> None:
        super().__init__(f"The file has {size} bytes.")
        self.size = size


class ParametersInvalid(exceptions.APIException):
    """Query parameters that are not understood; silently ignoring one would hide a mistake."""

    status_code = 400
    default_code = "invalid_parameters"

    def __init__(self, errors: Sequence[core.FieldError]) -> None:
        super().__init__("; ".join(error.detail for error in errors))
        self.errors = list(errors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One error answer before it is rendered."""

    status: int
    code: str
    title: str
    detail: str
    errors: Sequence[core.FieldError] = ()
    headers: Mapping[str, str] | None = None


TITLES = {
    400: "Bad request",
    401: "Not signed in",
    403: "Not allowed",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    409: "Conflict",
    412: "Changed meanwhile",
    413: "Too large",
    415: "Unsupported content type",
    416: "No such range",
    422: "Cannot be processed",
    428: "If-Match is missing",
    429: "Too many requests",
    500: "Internal error",
    503: "Temporarily unavailable",
    507: "No room",
}


def _problem(status: int, code: str, detail: str, **more: Any) -> Problem:  # passed on to Problem
    return Problem(status=status, code=code, title=TITLES.get(status, "Error"), detail=detail, **more)


def _pointer(path: Sequence[str]) -> str:
    return "".join("/" + part.replace("~", "~0").replace("/", "~1") for part in path)


def _flatten(detail: Any, path: tuple[str, ...] = ()) -> list[core.FieldError]:  # DRF nests lists and dicts freely
    if isinstance(detail, Mapping):
        found: list[core.FieldError] = []
        for key, value in detail.items():
            found += _flatten(value, path if key == "non_field_errors" else (*path, str(key)))
        return found
    if isinstance(detail, list):
        nested = any(isinstance(item, Mapping | list) for item in detail)
        return [e for i, item in enumerate(detail) for e in _flatten(item, (*path, str(i)) if nested else path)]
    code = getattr(detail, "code", None) or "invalid"
    return [core.FieldError(pointer=_pointer(path), code=str(code), detail=str(detail))]


def _of_scheduler(error: core.SchedulerError) -> Problem | None:
    text = str(error)
    match error:
        case core.SpecInvalid():
            count = len(error.errors)
            detail = "One field is wrong." if count == 1 else f"{count} fields are wrong."
            return _problem(400, "invalid", detail, errors=error.errors)
        case core.NotFound():
            return _problem(404, "not_found", text or NOT_FOUND)
        case core.NotAllowed():
            return _problem(403, "not_allowed", text or "Your role does not allow this.")
        case core.JobChanged():
            return _problem(409, "job_changed", "The job changed at the same moment. Read it and try again.")
        case core.InvalidTransition():
            return _problem(409, "invalid_transition", f"The job is not in a state for this ({text}).")
        case core.NoRoom():
            return _problem(507, "no_room", text)
        case core.Conflict():
            return _problem(409, "conflict", text or "It is not in a state for this.")
    return None


def _of_framework(error: exceptions.APIException) -> Problem:
    headers: dict[str, str] = {}
    if challenge := getattr(error, "auth_header", None):
        headers["WWW-Authenticate"] = challenge
    if isinstance(error, RangeNotSatisfiable):
        headers["Content-Range"] = f"bytes */{error.size}"
    code = str(error.get_codes()) if isinstance(error.get_codes(), str) else error.default_code
    if isinstance(error, exceptions.ValidationError):
        found = _flatten(error.detail)
        detail = "One field is wrong." if len(found) == 1 else f"{len(found)} fields are wrong."
        return _problem(400, "invalid", detail, errors=found)
    if isinstance(error, ParametersInvalid):
        return _problem(400, code, str(error.detail), errors=error.errors)
    if error.status_code == 429:
        headers["Retry-After"] = str(int(getattr(error, "wait", None) or 1))
    if isinstance(error, exceptions.Throttled):
        return _problem(429, code, f"Too many requests. Try again in {headers['Retry-After']} s.", headers=headers)
    if isinstance(error, exceptions.NotFound):
        return _problem(404, "not_found", NOT_FOUND if error.detail == error.default_detail else str(error.detail))
    return _problem(error.status_code, code, str(error.detail), headers=headers)


def _of_django(error: Exception) -> Problem | None:
    match error:
        case Http404():
            return _problem(404, "not_found", NOT_FOUND)
        case DjangoPermissionDenied():
            return _problem(403, "not_allowed", str(error) or "Your role does not allow this.")
        case RequestDataTooBig():
            return _problem(413, "body_too_large", "The request is too large.")
        case SuspiciousOperation():
            return _problem(400, "bad_request", "The request cannot be read.")
        case OperationalError():
            log.warning("database_unavailable", exc_info=error)
            detail = "The database did not answer in time. Nothing was changed; try again."
            return _problem(503, "database_unavailable", detail, headers={"Retry-After": "1"})
    return None


def problem_of(error: Exception) -> Problem:
    """Return the problem that tells a caller about ``error``; logs unexpected errors."""
    known: Problem | None
    if isinstance(error, core.SchedulerError):
        known = _of_scheduler(error)
    elif isinstance(error, exceptions.APIException):
        known = _of_framework(error)
    else:
        known = _of_django(error)
    if known is None:
        log.error("request_failed", exc_info=error)
        known = _problem(500, "internal", "Clusterweb could not answer. Tell an admin the request id.")
    return known


def render(problem: Problem, request: HttpRequest) -> HttpResponse:
    """Return the answer for ``problem``."""
    body = {
        "type": f"urn:clusterweb:problem:{problem.code}",
        "title": problem.title,
        "status": problem.status,
        "detail": problem.detail,
        "instance": request.path,
        "request_id": getattr(request, "request_id", ""),
        "errors": [asdict(error) for error in problem.errors],
    }
    return HttpResponse(
        JSONRenderer().render(body), status=problem.status, content_type=CONTENT_TYPE, headers=problem.headers or {}
    )


def problem_response(error: Exception, context: Mapping[str, Any]) -> HttpResponse:  # signature of DRF
    """Answer any exception of a view; named in the settings as the exception handler."""
    problem, view = problem_of(error), context.get("view")
    if isinstance(error, exceptions.MethodNotAllowed):
        problem = replace(problem, detail=_right_method(context["request"].method, view))
    elif isinstance(error, exceptions.UnsupportedMediaType):
        problem = replace(problem, detail=_right_type(context["request"], view))
    return render(problem, context["request"]._request)


def _right_method(method: str | None, view: Any) -> str:  # an ApiView, which imports this module
    known = [name for name in getattr(view, "allowed_methods", ()) if name in getattr(view, "rules", {})]
    return f"{str(method)[:20]} means nothing at this path. It takes {' or '.join(known) or 'no request'}."


def _right_type(request: Any, view: Any) -> str:  # of DRF
    given = str(request.content_type or "").partition(";")[0].strip()[:80]
    types = [str(parser.media_type) for parser in getattr(view, "parser_classes", ())]
    detail = f"The body is {given or 'of no type'}. Send {' or '.join(types)} and name it in Content-Type."
    if _BINARY.search(given) and not any(_BINARY.search(one) for one in types):
        detail += " A folder or an archive goes to POST /api/v1/code/archive first; its answer is for code.manifest."
    return detail
