"""Requests for quota: who asked for how many GPUs until when, and the answer. All who see a queue see its requests."""

from datetime import datetime, timedelta
from typing import Annotated, TypedDict

from django.db.models import QuerySet

from scheduler.core.model.errors import NotFound
from scheduler.models import QuotaRequest
from scheduler.models.queue import RequestState
from scheduler.selectors.rows import Moment, one_of
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Access, Actor, access_of

TOLD_FOR = timedelta(days=7)  # so long the overview of the asker tells of an answer


class QuotaRequestRow(TypedDict):
    """One request for quota."""

    id: int
    queue: str
    asked_by: Annotated[str, "User name."]
    asked_at: Moment
    quota_gpus: Annotated[int, "The whole quota that is asked for."]
    until: Annotated[str | None, "Last day on which it is needed, such as 2026-11-30; null: for good."]
    reason: str
    state: Annotated[str, one_of(RequestState.values)]
    before_gpus: Annotated[int, "The quota when it was asked; of a granted one, the quota that it replaced."]
    given_gpus: Annotated[int | None, "The quota that was given; null unless it was granted."]
    answered_at: Moment | None
    answered_by: Annotated[str, "User name; empty while it is open."]
    answer: Annotated[str, "In words; may be empty."]
    replaced_by: Annotated[str | None, "Id of the request that took its place when it was changed."]
    may_answer: Annotated[bool, "Whether you may grant or refuse it."]
    may_withdraw: bool


def quota_requests(user: Actor, *, queue: str = "", state: str = "", limit: int = 200) -> list[QuotaRequestRow]:
    """Return the requests of the queues that ``user`` sees, newest first."""
    access = access_of(user)
    found = _visible(access)
    if queue:
        found = found.filter(queue__name=queue)
    if state:
        found = found.filter(state=state)
    return [request_row(one, user, access) for one in found[:limit]]


def own_requests(user: Actor, at: datetime) -> list[QuotaRequestRow]:
    """Return what ``user`` asked for that is open or was answered a short time ago."""
    access = access_of(user)
    mine = _visible(access).filter(asked_by_id=user.pk).exclude(state=RequestState.WITHDRAWN)
    return [
        request_row(one, user, access)
        for one in mine[:20]
        if one.answered_at is None or at - one.answered_at < TOLD_FOR
    ]


def require_request(user: Actor, request_id: int) -> QuotaRequest:
    """Return one request. Raises NotFound where there is none, or its queue may not be seen."""
    found = _visible(access_of(user)).filter(pk=request_id).first() if request_id < 2**63 else None
    if found is None:
        raise NotFound(f"There is no request {request_id} that you may see.")
    return found


def request_row(request: QuotaRequest, user: Actor, access: Access) -> QuotaRequestRow:
    """Return one request as plain JSON data."""
    is_open = request.state == RequestState.OPEN
    return {
        "id": request.pk,
        "queue": request.queue.name,
        "asked_by": request.asked_by.username,
        "asked_at": iso(request.asked_at),
        "quota_gpus": request.quota_gpus,
        "until": request.until.isoformat() if request.until else None,
        "reason": request.reason,
        "state": request.state,
        "before_gpus": request.before_gpus,
        "given_gpus": request.given_gpus,
        "answered_at": iso(request.answered_at),
        "answered_by": request.answered_by,
        "answer": request.answer,
        "replaced_by": str(request.replaced_by_id) if request.replaced_by_id else None,
        "may_answer": is_open and access.may_change_quota(request.queue),
        "may_withdraw": is_open and request.asked_by_id == user.pk,
    }


def _visible(access: Access) -> QuerySet[QuotaRequest]:
    found = QuotaRequest.objects.select_related("queue", "asked_by")
    return found if access.is_admin else found.filter(queue_id__in=list(access.roles))
