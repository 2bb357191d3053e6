"""The quota tab: the editor, what another quota would do, and earlier changes."""

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, TypedDict

from django.contrib import messages
from django.http import HttpRequest, HttpResponseRedirect

from frontend.components.devices import DeviceWord
from frontend.components.formats import signed
from frontend.components.happenings import Happening, happenings
from frontend.components.viewer import now_utc
from frontend.pages.queues.consequences import consequences
from frontend.pages.queues.forms import (
    FilesForm,
    IdleForm,
    IsolationForm,
    LimitsForm,
    QuotaForm,
    RefuseForm,
    RequestForm,
)
from frontend.pages.queues.requests import asked_in, is_gpus, requests_context
from frontend.pages.queues.sent import Sent, SentContext
from frontend.pages.queues.sums import SiblingField, quota_left, quota_missing
from scheduler.core.model.errors import Conflict, SpecInvalid
from scheduler.core.spec.units import format_duration
from scheduler.models import Event, Queue, QuotaRequest
from scheduler.models.queue import RequestState
from scheduler.selectors.cluster.servers import gpu_count
from scheduler.selectors.events import event_row, events_joined
from scheduler.selectors.queues.requests import QuotaRequestRow, request_row
from scheduler.selectors.queues.stored import Stored, queue_stored
from scheduler.selectors.queues.tree import queue_siblings
from scheduler.selectors.visibility import Actor, access_of
from scheduler.services.inputs import REASON_CHARS
from scheduler.services.queues.change import CHANGES
from scheduler.services.queues.directories import queue_keep_directories
from scheduler.services.queues.idle import queue_set_idle
from scheduler.services.queues.isolation import queue_demand_isolation
from scheduler.services.queues.quotas import (
    QUOTA_FIELDS,
    Quota,
    SiblingQuota,
    queue_change_quota,
    quota_problems,
)
from scheduler.services.queues.requests import quota_request_grant
from scheduler.services.queues.user_limits import queue_limit_users
from scheduler.whatif.quota_forecast import FARTHER_S, HORIZON_S, quota_forecast

CHANGES_SHOWN = 10
TabForm = LimitsForm | IdleForm | IsolationForm | FilesForm
GIB = 2**30


class QuotaTab(TypedDict):
    """The context of the tab.

    Keys:
        scale_top: The end of the slider: what could be saved with all that the shown queues beside it have; for users
            who ask others for quota, and at the top of the tree, what the cluster has.
        left: What could be saved while the queues beside it keep theirs; None where no queue above sets a limit.
        slider: The quota in the form, as a number or as typed.
        difference: Of that to the present quota, with its sign; empty for none.
        missing: Why the quota in the form could not be saved, and what to do; empty where it could, for users who ask
            others for it, and where a field says it.
        asked: The open request that the form answers.
        ended: The request that a link came with, where it is answered or withdrawn already.
        request_form, own_open: For users who may not save it: the form of a request, and their open one.
        answered_by: Users who answer requests, in words.
    """

    siblings: list[SiblingField]
    scale_top: int
    left: int | None
    slider: object
    difference: str
    missing: str
    now_percent: float
    changes: list[Happening]
    quota_form: QuotaForm
    limits_form: LimitsForm
    idle_form: IdleForm
    isolation_form: IsolationForm
    files_form: FilesForm
    refuse_form: RefuseForm
    stored: Stored
    asked: QuotaRequestRow | None
    ended: QuotaRequestRow | None
    request_form: RequestForm | None
    own_open: QuotaRequestRow | None
    answered_by: str


def quota_context(
    user: Actor,
    queue: Queue,
    sent: SentContext,
    *,
    device: DeviceWord,
    may_change: bool,
    asked: QuotaRequest | None = None,
    typed_gpus: str = "",
) -> QuotaTab:
    """Return what the tab shows.

    Args:
        may_change: Whether the reader may save the quota; others ask for it.
        asked: The request that a link came with; its GPUs and reason stand in the form.
        typed_gpus: The quota that a link came with, as text.
    """
    named = request_row(asked, user, access_of(user)) if asked is not None else None
    row = named if named is not None and named["may_answer"] else None
    changes = events_joined(Event.objects.filter(queue=queue, kind__in=list(CHANGES))).order_by("-id")
    siblings = queue_siblings(user, queue)
    left = quota_left(queue)
    asking = None if may_change else requests_context(user, queue, sent, typed_gpus=typed_gpus)
    own_open = asking["own_open"] if asking else None
    if left is not None and may_change:
        scale = max(left + sum(row["quota_gpus"] for row in siblings), queue.quota_gpus, 1)
    else:
        cluster_gpus = gpu_count()
        scale = cluster_gpus if cluster_gpus > queue.quota_gpus else max(2 * queue.quota_gpus, 8)
    form = sent.get("quota_form") or QuotaForm(initial=_shown(queue) | _proposed(row or own_open, typed_gpus))
    taken = sent.get("taken", {})
    fields: list[SiblingField] = [{**row, "value": taken.get(row["id"], row["quota_gpus"])} for row in siblings]
    typed = str(form["quota_gpus"].value())
    missing = quota_missing(queue, typed, fields, device) if may_change else ""
    if form.lacking:  # nothing is missing by the fields where a queue beside it got another quota since they were shown
        form.add_error("quota_gpus", missing or form.lacking)
    return {
        "siblings": fields,
        "scale_top": scale,
        "left": left,
        "slider": form["quota_gpus"].value(),
        "difference": signed(int(typed) - queue.quota_gpus).removeprefix("0") if is_gpus(typed) else "",
        "missing": "" if form["quota_gpus"].errors else missing,
        "now_percent": 100 * queue.quota_gpus / scale,
        "changes": happenings([event_row(event) for event in changes[:CHANGES_SHOWN]], device),
        "quota_form": form,
        "limits_form": sent.get("limits_form") or LimitsForm(initial=_limits(queue)),
        "idle_form": sent.get("idle_form") or IdleForm(initial=_idle(queue)),
        "isolation_form": sent.get("isolation_form")
        or IsolationForm(initial={"isolation": queue.isolation, "version": queue.version}),
        "files_form": sent.get("files_form") or FilesForm(initial=_files(queue)),
        "refuse_form": sent.get("refuse_form") or RefuseForm(),
        "stored": queue_stored(queue),
        "asked": row,
        "ended": named if named is not None and named["state"] != RequestState.OPEN else None,
        "request_form": asking["request_form"] if asking else None,
        "own_open": own_open,
        "answered_by": f"leads of {queue.parent.name} and admins" if queue.parent is not None else "admins",
    }


def _shown(queue: Queue) -> dict[str, object]:
    names = ("quota_gpus", "max_gpus", "weight", "may_borrow", "version")
    return {name: getattr(queue, name) for name in names} | {"weight": f"{queue.weight:g}"}


def _proposed(asked: QuotaRequestRow | None, typed_gpus: str) -> dict[str, object]:
    """Return what a link puts into the form."""
    if asked is not None:
        return {
            "quota_gpus": int(typed_gpus) if is_gpus(typed_gpus) else asked["quota_gpus"],
            "reason": f"{asked['asked_by']}: {asked['reason']}"[: REASON_CHARS[1]],
        }
    return {"quota_gpus": int(typed_gpus)} if is_gpus(typed_gpus) else {}


def _limits(queue: Queue) -> dict[str, object]:
    return {name: getattr(queue, name) for name in ("user_max_gpus", "user_max_queued", "version")}


def _idle(queue: Queue) -> dict[str, object]:
    after = "" if queue.idle_after_s is None else format_duration(queue.idle_after_s)
    return {"after": after, "action": queue.idle_action, "version": queue.version}


def _files(queue: Queue) -> dict[str, object]:
    most = {
        "directories_most": queue.directories_most_bytes,
        "user_directories_most": queue.user_directories_most_bytes,
    }
    shown = {name: None if value is None else -(-value // GIB) for name, value in most.items()}
    return {**shown, "keep_directories_days": queue.keep_directories_days, "version": queue.version}


def quota_sent(request: HttpRequest, queue: Queue) -> Sent:
    """Save the quota, or show what it would do."""
    doing = request.POST.get("do", "")
    is_preview = doing in ("preview", "farther")
    form = QuotaForm(request.POST, needs_reason=not is_preview)
    moves, taken = _moves(request.user, request.POST, queue)
    shown: SentContext = {"quota_form": form, "taken": taken}
    is_valid, values = form.is_valid(), form.cleaned_data
    after = Quota(**{name: values[name] for name in QUOTA_FIELDS}) if values.keys() >= set(QUOTA_FIELDS) else None
    if after is None or not is_valid:
        if after is not None:  # what adds up is checked too, so that all that is wrong is told at once
            may_save = access_of(request.user).may_change_quota(queue)
            problems = quota_problems(queue, after, moves, may_save=may_save)
            form.add_errors(SpecInvalid(problems.errors))
        return _refused(form, shown, is_preview=is_preview)
    try:
        if is_preview:
            ahead_s = FARTHER_S if doing == "farther" else HORIZON_S
            found = quota_forecast(
                actor=request.user, queue=queue, after=after, moves=moves, at=now_utc(), horizon_s=ahead_s
            )
            return Sent(context={**shown, "consequences": consequences(found, most_horizon_s=FARTHER_S)})
        return _saved(request, queue, after, moves, values)
    except SpecInvalid as error:
        form.add_errors(error)
        return _refused(form, shown, is_preview=is_preview)
    except Conflict as error:
        queue.refresh_from_db()
        form = QuotaForm({**request.POST.dict(), "version": queue.version})
        return Sent(status=409, context={**shown, "quota_form": form, "conflict": str(error)})


def _refused(form: QuotaForm, shown: SentContext, *, is_preview: bool) -> Sent:
    """Show the form again; its fields say what is wrong, and the card of a preview that it has no answer."""
    return Sent(status=422, context={**shown, "refused": is_preview})


def _saved(
    request: HttpRequest, queue: Queue, after: Quota, moves: list[SiblingQuota], values: Mapping[str, Any]
) -> Sent:
    """Save the quota; as the answer to a request where the form names one."""
    asked = asked_in(request.user, queue, request.POST.get("request", ""))
    reason, version, at = values["reason"], values["version"], now_utc()
    if asked is not None:
        quota_request_grant(
            actor=request.user,
            request=asked,
            quota=after,
            reason=reason,
            expected_version=version,
            at=at,
            moves=moves,
        )
        said = f"{asked.asked_by.username} is told: the quota"
    else:
        queue_change_quota(
            actor=request.user,
            queue=queue,
            **asdict(after),
            reason=reason,
            expected_version=version,
            moves=moves,
            at=at,
        )
        said = "Quota"
    messages.success(request, f"{said} of {queue.name} is {after.quota_gpus} from the next round.")
    return Sent(to=HttpResponseRedirect(f"/queues/{queue.name}?tab=quota"))


def _moves(user: Actor, sent: Mapping[str, str], queue: Queue) -> tuple[list[SiblingQuota], dict[int, str]]:
    """Return the sent quotas of the queues beside it: those that change, and all as typed."""
    moves, taken = [], {}
    pks = {row["id"] for row in queue_siblings(user, queue)}
    for sibling in Queue.objects.filter(pk__in=pks).order_by("name"):
        text, seen = sent.get(f"take-{sibling.pk}", "").strip(), sent.get(f"seen-{sibling.pk}", "").strip()
        if not text.isascii() or not text.isdigit() or len(text) > 7:
            continue
        taken[sibling.pk] = text
        seen_gpus = int(seen) if seen.isascii() and seen.isdigit() and len(seen) <= 7 else None
        if int(text) != (sibling.quota_gpus if seen_gpus is None else seen_gpus):
            moves.append(SiblingQuota(queue=sibling, quota_gpus=int(text), seen_gpus=seen_gpus))
    return moves, taken


def limits_sent(request: HttpRequest, queue: Queue) -> Sent:
    """Save what one user may hold at most."""
    form = LimitsForm(request.POST)

    def save() -> None:
        values = form.cleaned_data
        queue_limit_users(
            actor=request.user,
            queue=queue,
            user_max_gpus=values["user_max_gpus"],
            user_max_queued=values["user_max_queued"],
            reason=values["reason"],
            expected_version=values["version"],
            at=now_utc(),
        )

    said = f"The limits of each user in {queue.name} hold from the next round."
    return _sent(request, queue, form, save, said)


def idle_sent(request: HttpRequest, queue: Queue) -> Sent:
    """Save what happens to jobs that hold GPUs without using them."""
    form = IdleForm(request.POST)

    def save() -> None:
        values = form.cleaned_data
        queue_set_idle(
            actor=request.user,
            queue=queue,
            idle_after_s=values["after"],
            idle_action=values["action"],
            reason=values["reason"],
            expected_version=values["version"],
            at=now_utc(),
        )

    said = f"What becomes of idle jobs in {queue.name} holds from now on."
    return _sent(request, queue, form, save, said)


def isolation_sent(request: HttpRequest, queue: Queue) -> Sent:
    """Save how far apart servers must keep jobs."""
    form = IsolationForm(request.POST)

    def save() -> None:
        values = form.cleaned_data
        queue_demand_isolation(
            actor=request.user,
            queue=queue,
            isolation=values["isolation"],
            reason=values["reason"],
            expected_version=values["version"],
            at=now_utc(),
        )

    said = f"What {queue.name} demands of servers holds from the next round."
    return _sent(request, queue, form, save, said)


def files_sent(request: HttpRequest, queue: Queue) -> Sent:
    """Save how long files of ended jobs are kept; where that removes some, show first what."""
    form = FilesForm(request.POST)

    def save() -> None:
        values = form.cleaned_data
        most, of_user = values["directories_most"], values["user_directories_most"]
        queue_keep_directories(
            actor=request.user,
            queue=queue,
            keep_directories_days=values["keep_directories_days"],
            directories_most_bytes=None if most is None else most * GIB,
            user_directories_most_bytes=None if of_user is None else of_user * GIB,
            reason=values["reason"],
            expected_version=values["version"],
            at=now_utc(),
            confirmed_jobs=form.confirmed(),
        )

    return _sent(request, queue, form, save, f"{queue.name} keeps files of ended jobs like this from now on.")


def _sent(request: HttpRequest, queue: Queue, form: TabForm, save: Callable[[], None], said: str) -> Sent:
    """Save what a form holds, or show it again with what is wrong."""
    if not form.is_valid():
        return Sent(status=422, context=_again(form))
    try:
        save()
    except SpecInvalid as error:
        form.add_errors(error)
        return Sent(status=422, context=_again(form))
    except Conflict as error:
        queue.refresh_from_db()
        newer = type(form)({**request.POST.dict(), f"{form.prefix}-version": queue.version})
        return Sent(status=409, context={**_again(newer), "conflict": str(error)})
    messages.success(request, said)
    return Sent(to=HttpResponseRedirect(f"/queues/{queue.name}?tab=quota"))


def _again(form: TabForm) -> SentContext:
    if isinstance(form, IsolationForm):
        return {"isolation_form": form}
    if isinstance(form, FilesForm):
        return {"files_form": form}
    return {"limits_form": form} if isinstance(form, LimitsForm) else {"idle_form": form}
