"""The tab of requests: members ask for quota, and see what was asked before and how it was answered.

Users who may change the quota grant a request on the quota tab, where its preview is; here they read and refuse.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypedDict

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponseRedirect, QueryDict

from frontend.components.viewer import now_utc
from frontend.pages.queues.forms import RefuseForm, RequestForm
from frontend.pages.queues.sent import Sent, SentContext
from scheduler.core.model.errors import Conflict, FieldError, SpecInvalid
from scheduler.models import Queue, QuotaRequest
from scheduler.models.queue import RequestState, Role
from scheduler.selectors.queues.requests import QuotaRequestRow, quota_requests, require_request
from scheduler.selectors.visibility import Actor, access_of
from scheduler.services.queues.requests import (
    quota_request_change,
    quota_request_create,
    quota_request_problems,
    quota_request_refuse,
    quota_request_withdraw,
)

SHOWN = 50


class RequestsTab(TypedDict):
    """The context of the tab; ``request_form`` is None for users who do not ask.

    Keys:
        own_open: The user's request that is not answered; the form changes it.
        others_open: Such requests of other users for the queue.
    """

    asked_rows: list[QuotaRequestRow]
    request_form: RequestForm | None
    own_open: QuotaRequestRow | None
    others_open: list[QuotaRequestRow]


def requests_context(user: Actor, queue: Queue, sent: SentContext, *, typed_gpus: str) -> RequestsTab:
    """Return what the tab shows."""
    rows = quota_requests(user, queue=queue.name, limit=SHOWN)
    still_open = [row for row in rows if row["state"] == RequestState.OPEN]
    own = next((row for row in still_open if row["may_withdraw"]), None)
    access = access_of(user)
    may_ask = access.at_least(queue.pk, Role.MEMBER) and (not access.may_change_quota(queue) or own is not None)
    return {
        "asked_rows": rows,
        "request_form": sent.get("request_form") or (_form(queue, own, typed_gpus) if may_ask else None),
        "own_open": own,
        "others_open": [row for row in still_open if row is not own],
    }


def _form(queue: Queue, own: QuotaRequestRow | None, typed_gpus: str) -> RequestForm:
    """Return the form of a new request, or of the user's open one, with the GPUs that a link came with."""
    initial: dict[str, object] = {"quota_gpus": queue.quota_gpus + 1}
    if own is not None:
        initial = {name: own[name] for name in ("quota_gpus", "until", "reason")}
    return RequestForm(initial=initial | ({"quota_gpus": int(typed_gpus)} if is_gpus(typed_gpus) else {}))


def is_gpus(text: str) -> bool:
    """Return whether text out of an address is a number of GPUs."""
    return text.isascii() and text.isdigit() and len(text) <= 7


def asked_in(user: Actor, queue: Queue, text: str) -> QuotaRequest | None:
    """Return the request of this queue that an address or a form names; None where it names none. Raises NotFound."""
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        return None
    found = require_request(user, int(text))
    return found if found.queue_id == queue.pk else None


def request_sent(request: HttpRequest, queue: Queue) -> Sent:
    """Ask for quota."""
    said = "Your request is sent. You are told here and on your overview when it is answered."
    return _sent(request, queue, partial(quota_request_create, queue=queue), said)


def request_changed(request: HttpRequest, queue: Queue) -> Sent:
    """Change an own request that is not answered."""
    asked = _asked(request, queue)
    return _sent(request, queue, partial(quota_request_change, request=asked), "Your request is changed.")


def _sent(request: HttpRequest, queue: Queue, save: Callable[..., QuotaRequest], said: str) -> Sent:
    """Save what the form holds, or show it again with what is wrong."""
    form = RequestForm(_fields(request.POST))
    if not form.is_valid():
        # What could be read is checked too, so that all that is wrong is told at once.
        gpus, until = form.cleaned_data.get("quota_gpus"), form.cleaned_data.get("until")
        _add(form, quota_request_problems(queue, quota_gpus=gpus, until=until, at=now_utc()).errors)
        return Sent(status=422, context={"request_form": form})
    try:
        save(actor=request.user, at=now_utc(), **form.cleaned_data)
    except SpecInvalid as error:
        _add(form, error.errors)
        return Sent(status=422, context={"request_form": form})
    except Conflict as error:
        form.add_error(None, str(error))
        return Sent(status=409, context={"request_form": form})
    messages.success(request, said)
    return Sent(to=_back(queue))


def _fields(post: QueryDict) -> Mapping[str, str]:
    """Return the fields of the form; on the quota tab the quota is that of its preview."""
    fields = {name: str(value) for name, value in post.items()}
    return fields | ({"ask-quota_gpus": fields["quota_gpus"]} if "quota_gpus" in fields else {})


def _add(form: RequestForm, errors: list[FieldError]) -> None:
    for entry in errors:
        form.add_error(entry.pointer.strip("/"), entry.detail)


def request_refused(request: HttpRequest, queue: Queue) -> Sent:
    """Refuse a request."""
    asked, form = _asked(request, queue), RefuseForm(request.POST)
    if not form.is_valid():
        return Sent(status=422, context={"refuse_form": form})
    try:
        quota_request_refuse(actor=request.user, request=asked, reason=form.cleaned_data["reason"], at=now_utc())
        messages.success(request, f"The request of {asked.asked_by.username} is refused.")
    except SpecInvalid as error:
        form.add_error("reason", error.errors[0].detail)
        return Sent(status=422, context={"refuse_form": form})
    except Conflict as error:
        messages.error(request, f"Not refused: {error}")
    return Sent(to=_back(queue))


def request_withdrawn(request: HttpRequest, queue: Queue) -> Sent:
    """Withdraw an own request."""
    try:
        quota_request_withdraw(actor=request.user, request=_asked(request, queue), at=now_utc())
        messages.success(request, "Your request is withdrawn.")
    except Conflict as error:
        messages.error(request, str(error))
    return Sent(to=_back(queue))


def _asked(request: HttpRequest, queue: Queue) -> QuotaRequest:
    asked = asked_in(request.user, queue, request.POST.get("request", ""))
    if asked is None:
        raise Http404("request")
    return asked


def _back(queue: Queue) -> HttpResponseRedirect:
    return HttpResponseRedirect(f"/queues/{queue.name}?tab=requests")
