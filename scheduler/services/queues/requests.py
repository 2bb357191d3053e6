"""Requests for quota: members ask with a reason; users with the right to change the quota grant or refuse.

A granted request is a change of the quota like any other, in one transaction with the answer. Nothing happens by itself
when its last day is over: the inbox of admins tells of it. Held right by
``tests/integration/services/queues/test_requests.py``.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime

from django.contrib.auth.models import User
from django.db import IntegrityError, transaction

from scheduler.core.model.errors import Conflict, NotAllowed
from scheduler.models import Queue, QuotaRequest
from scheduler.models.queue import RequestState, Role
from scheduler.notify import touch_cluster, touch_queue
from scheduler.selectors.rows import Json
from scheduler.selectors.visibility import Actor, access_of
from scheduler.services.events import event_record
from scheduler.services.inputs import Problems, reason_given
from scheduler.services.permission import actor_name
from scheduler.services.queues.change import queue_access
from scheduler.services.queues.quotas import MOST_GPUS, Quota, SiblingQuota, check_cluster, queue_change_quota

LATEST = date(2999, 12, 31)


def quota_request_create(
    *, actor: Actor, queue: Queue, quota_gpus: int, until: date | None, reason: str, at: datetime
) -> QuotaRequest:
    """Ask for another quota of a queue.

    Args:
        quota_gpus: The whole quota, more than the present one, at most what the cluster has.
        until: Last day (UTC) on which it is needed; None: for good.
        reason: At least 3 characters; all who see the queue can read it.

    Raises:
        NotFound: ``actor`` may not see the queue.
        NotAllowed: ``actor`` is no member of it.
        SpecInvalid: A bad value.
        Conflict: ``actor`` has an open request for it.
    """
    asker = _member(actor, queue)
    reason = _checked(queue, quota_gpus=quota_gpus, until=until, reason=reason, at=at)
    try:
        with transaction.atomic():
            return _open(queue, asker, quota_gpus=quota_gpus, until=until, reason=reason, at=at)
    except IntegrityError:
        raise Conflict(f"You have an open request for {queue.name} already. Change it, or withdraw it first.") from None


def quota_request_change(
    *, actor: Actor, request: QuotaRequest, quota_gpus: int, until: date | None, reason: str, at: datetime
) -> QuotaRequest:
    """Ask for something else in the place of an open request of one's own.

    The old one is withdrawn, so that a grant by its number gives what stood in it or nothing, and names the new one.

    Raises:
        NotAllowed: The request is another user's, or ``actor`` is no member of its queue any more.
        SpecInvalid: A bad value, as in ``quota_request_create``.
        Conflict: The request is answered already.
    """
    if request.asked_by_id != actor.pk:
        raise NotAllowed(f"Only {request.asked_by.username} may change the request.")
    asker = _member(actor, request.queue)
    reason = _checked(request.queue, quota_gpus=quota_gpus, until=until, reason=reason, at=at)
    with transaction.atomic():
        _close(request, actor=actor, state=RequestState.WITHDRAWN, at=at, answer="")
        return _open(request.queue, asker, quota_gpus=quota_gpus, until=until, reason=reason, at=at, replaces=request)


def quota_request_grant(
    *,
    actor: Actor,
    request: QuotaRequest,
    quota: Quota,
    reason: str,
    expected_version: int,
    at: datetime,
    moves: Sequence[SiblingQuota] = (),
) -> QuotaRequest:
    """Change the quota of the queue for a request, and tell the user who asked.

    Args:
        quota: As for ``queue_change_quota``; may be less than what was asked for, but more than the present one, which
            may have grown since.
        expected_version: ``Queue.version`` as the actor saw it.

    Raises:
        NotAllowed: ``actor`` may not change the quota.
        SpecInvalid: A bad number, no more than the present quota, or quotas that do not add up.
        Conflict: The request is answered already, or the quota changed since.
    """
    with transaction.atomic():
        before_gpus = Queue.objects.values_list("quota_gpus", flat=True).get(pk=request.queue_id)
        _answer(
            request,
            actor=actor,
            state=RequestState.GRANTED,
            reason=reason,
            at=at,
            given_gpus=quota.quota_gpus,
            before_gpus=before_gpus,
        )
        if quota.quota_gpus <= before_gpus:
            problems = Problems()
            detail = (
                f"quota must be more than the present {before_gpus}, not {quota.quota_gpus}. Else refuse the request."
            )
            problems.add("quota_gpus", "range", detail)
            problems.refuse()
        queue_change_quota(
            actor=actor,
            queue=request.queue,
            quota_gpus=quota.quota_gpus,
            max_gpus=quota.max_gpus,
            weight=quota.weight,
            may_borrow=quota.may_borrow,
            reason=reason,
            expected_version=expected_version,
            at=at,
            moves=moves,
        )
    return request


def quota_request_refuse(*, actor: Actor, request: QuotaRequest, reason: str, at: datetime) -> QuotaRequest:
    """Refuse a request with a reason that the user who asked reads.

    Raises:
        NotAllowed: ``actor`` may not change the quota.
        SpecInvalid: No reason.
        Conflict: The request is answered already.
    """
    reason = reason_given(reason)
    with transaction.atomic():
        return _answer(request, actor=actor, state=RequestState.REFUSED, reason=reason, at=at)


def quota_request_withdraw(*, actor: Actor, request: QuotaRequest, at: datetime) -> QuotaRequest:
    """Withdraw a request of one's own. Raises NotAllowed, or Conflict when it is answered already."""
    if request.asked_by_id != actor.pk:
        raise NotAllowed(f"Only {request.asked_by.username} may withdraw the request.")
    with transaction.atomic():
        _close(request, actor=actor, state=RequestState.WITHDRAWN, at=at, answer="")
        _record_end(request, actor=actor, kind="quota_withdrawal", reason="withdraw", at=at)
    return request


def _member(actor: Actor, queue: Queue) -> User:
    if not queue_access(actor, queue).at_least(queue.pk, Role.MEMBER):
        raise NotAllowed(f"You see {queue.name} but are no member of it, so you cannot ask for its quota.")
    assert isinstance(actor, User)  # a member is signed in
    return actor


def _open(
    queue: Queue,
    asker: User,
    *,
    quota_gpus: int,
    until: date | None,
    reason: str,
    at: datetime,
    replaces: QuotaRequest | None = None,
) -> QuotaRequest:
    request = QuotaRequest.objects.create(
        queue=queue,
        asked_by=asker,
        asked_at=at,
        quota_gpus=quota_gpus,
        until=until,
        reason=reason,
        before_gpus=queue.quota_gpus,
    )
    verb, before = "ask", {"quota_gpus": queue.quota_gpus}
    if replaces is not None:
        verb, before = "change", _asked(replaces)
        replaces.replaced_by = request
        replaces.save(update_fields=["replaced_by"])
    _record(
        request, actor=asker, kind="quota_request", reason=verb, why=reason, at=at, before=before, after=_asked(request)
    )
    return request


def _asked(request: QuotaRequest) -> Json:
    """Return what a request asks for as its event keeps it."""
    until = request.until.isoformat() if request.until else None
    return {"request": request.pk, "quota_gpus": request.quota_gpus, "until": until}


def _checked(queue: Queue, *, quota_gpus: int, until: date | None, reason: str, at: datetime) -> str:
    """Refuse bad values of a request; return its reason without the blanks around it."""
    problems = Problems()
    reason = problems.reason(reason)
    problems.errors += quota_request_problems(queue, quota_gpus=quota_gpus, until=until, at=at).errors
    problems.refuse()
    return reason


def quota_request_problems(queue: Queue, *, quota_gpus: int | None, until: date | None, at: datetime) -> Problems:
    """Return what is wrong with the numbers and days of a request; None for what a form could not read is left out."""
    problems = Problems()
    if quota_gpus is not None:
        _check_gpus(problems, queue, quota_gpus)
    today = at.astimezone(UTC).date()
    if until is not None and until < today:
        problems.add("until", "range", f"until must be today ({today}) or later. You gave {until}.")
    if until is not None and until > LATEST:
        problems.add("until", "range", f"until is too far away: {until}. Leave it empty to ask for good.")
    return problems


def _check_gpus(problems: Problems, queue: Queue, quota_gpus: int) -> None:
    problems.number("quota_gpus", quota_gpus, low=0, high=MOST_GPUS, label="quota")
    if not problems.errors and quota_gpus <= queue.quota_gpus:
        detail = f"quota must be more than the present {queue.quota_gpus}. You asked for {quota_gpus}."
        problems.add("quota_gpus", "range", detail)
    if not problems.errors:
        check_cluster(problems, queue, quota_gpus=quota_gpus)


def _answer(
    request: QuotaRequest, *, actor: Actor, state: RequestState, reason: str, at: datetime, **values: int
) -> QuotaRequest:
    if not access_of(actor).may_change_quota(request.queue):
        raise NotAllowed(f"Only users who may change the quota of {request.queue.name} answer requests for it.")
    _close(request, actor=actor, state=state, at=at, answer=reason.strip(), **values)
    verb = "grant" if state == RequestState.GRANTED else "refuse"
    _record_end(request, actor=actor, kind="quota_answer", reason=verb, at=at)
    return request


def _close(
    request: QuotaRequest, *, actor: Actor, state: RequestState, at: datetime, answer: str, **values: int
) -> None:
    """End an open request; the guard refuses the second of two answers."""
    changes = {"state": state, "answered_at": at, "answered_by": actor_name(actor), "answer": answer, **values}
    if QuotaRequest.objects.filter(pk=request.pk, state=RequestState.OPEN).update(**changes) != 1:
        request.refresh_from_db()
        instead = f": request {request.replaced_by_id} took its place" if request.replaced_by_id else ""
        raise Conflict(f"The request is {request.state} already{instead}.")
    request.refresh_from_db()


def _record_end(request: QuotaRequest, *, actor: Actor, kind: str, reason: str, at: datetime) -> None:
    before: Json = {"state": RequestState.OPEN}
    after: Json = {"state": request.state}
    if request.given_gpus is not None:
        before["quota_gpus"], after["quota_gpus"] = request.before_gpus, request.given_gpus
    _record(request, actor=actor, kind=kind, reason=reason, why=request.answer, at=at, before=before, after=after)


def _record(
    request: QuotaRequest,
    *,
    actor: Actor,
    kind: str,
    reason: str,
    why: str,
    at: datetime,
    before: Json,
    after: Json,
) -> None:
    data = {
        **_asked(request),
        "user": request.asked_by.username,
        "given_gpus": request.given_gpus,
        "before": before,
        "after": after,
        "reason": why,
    }
    event_record(kind=kind, actor=actor, at=at, reason=reason, data=data, queue=request.queue)
    touch_queue(request.queue_id)
    touch_cluster()
