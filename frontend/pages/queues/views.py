"""Pages of the queues: the list, and one queue with its share, jobs, members and quota."""

from datetime import timedelta
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from frontend.components.devices import DeviceWord, device_word
from frontend.components.errors import page
from frontend.components.happenings import happenings
from frontend.components.times import Range, series_in
from frontend.components.viewer import QUEUE_COOKIE, now_utc, viewer_zone
from frontend.pages.queues.figures import share_chart
from frontend.pages.queues.forms import MemberForm, QuotaForm
from scheduler.core.errors import Conflict, NotAllowed, NotFound, SpecInvalid
from scheduler.core.lifecycle import HOLDING, JobState
from scheduler.models import Event, Queue
from scheduler.models.event import SampleScope
from scheduler.models.queue import Role
from scheduler.selectors.events import NOT_NEWS, event_row, events_joined
from scheduler.selectors.jobs import JobFilters, job_list, job_row
from scheduler.selectors.queues import queue_detail, queue_list
from scheduler.selectors.samples import series_mean
from scheduler.selectors.servers import server_list
from scheduler.selectors.visibility import require_queue
from scheduler.services.queues import membership_remove, membership_set, queue_change_quota

SPANS = {"24h": ("24 h", 86400), "7d": ("7 d", 604800), "30d": ("30 d", 2592000)}
POINTS = 120
WAITING_MOST = 10
YEAR_S = 31_536_000


def _device(request: HttpRequest) -> DeviceWord:
    return device_word(server["device_kind"] for server in server_list(request.user))


@require_safe
def queues(request: HttpRequest) -> HttpResponse:
    """Show every queue in which the reader has a role."""
    rows = queue_list(request.user)
    scale = max((max(row["held_gpus"], row["quota_gpus"]) for row in rows), default=1)
    context = {
        "rows": rows,
        "scale_gpus": scale + max(1, scale // 6),
        "device": _device(request),
        "held": sum(row["held_gpus"] for row in rows if not row["parent"]),
        "waiting": sum(row["waiting_jobs"] for row in rows if not row["parent"]),
        "groups": ["cluster", *(f"queue.{row['id']}" for row in rows[:50])],
    }
    return render(request, "queues/queues.html", context)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def queue(request: HttpRequest, name: str) -> HttpResponseBase:
    """Show one queue; POST changes its quota or its members (field ``do``)."""
    shown = require_queue(request.user, name)
    if request.method != "POST":
        response = _show(request, shown)
        response.set_cookie(QUEUE_COOKIE, shown.name, max_age=YEAR_S, samesite="Lax", secure=request.is_secure())
        return response
    doing = request.POST.get("do", "")
    if doing == "quota":
        return _change_quota(request, shown)
    if doing == "member":
        return _set_member(request, shown)
    return _remove_member(request, shown)


def _change_quota(request: HttpRequest, shown: Queue) -> HttpResponseBase:
    form = QuotaForm(request.POST)
    if not form.is_valid():
        return _show(request, shown, quota_form=form, status=422)
    values = form.cleaned_data
    try:
        changed = queue_change_quota(
            actor=request.user,
            queue=shown,
            quota_gpus=values["quota_gpus"],
            max_gpus=values["max_gpus"],
            weight=values["weight"],
            may_borrow=values["may_borrow"],
            reason=values["reason"],
            expected_version=values["version"],
            at=now_utc(),
        )
    except SpecInvalid as error:
        form.add_errors(error)
        return _show(request, shown, quota_form=form, status=422)
    except Conflict as error:
        shown.refresh_from_db()
        form = QuotaForm({**request.POST.dict(), "version": shown.version})
        return _show(request, shown, quota_form=form, conflict=str(error), status=409)
    messages.success(request, f"Quota of {changed.name} is {changed.quota_gpus} from the next round.")
    return redirect("queue", name=changed.name)


def _set_member(request: HttpRequest, shown: Queue) -> HttpResponseBase:
    form = MemberForm(request.POST)
    if not form.is_valid():
        return _show(request, shown, member_form=form, status=422)
    user, role = form.cleaned_data["username"], Role(form.cleaned_data["role"])
    try:
        membership_set(actor=request.user, queue=shown, user=user, role=role, at=now_utc())
    except NotAllowed as error:
        form.add_error("role", str(error))
        return _show(request, shown, member_form=form, status=403)
    messages.success(request, f"{user.username} is {role.label} of {shown.name}.")
    return redirect("queue", name=shown.name)


def _remove_member(request: HttpRequest, shown: Queue) -> HttpResponseRedirect:
    form = MemberForm({"username": request.POST.get("username", ""), "role": Role.VIEWER})
    try:
        if not form.is_valid():
            raise NotFound("There is no such user.")
        user = form.cleaned_data["username"]
        membership_remove(actor=request.user, queue=shown, user=user, at=now_utc())
        messages.success(request, f"{user.username} has no role in {shown.name} any more.")
    except (NotAllowed, NotFound) as error:
        messages.error(request, str(error))
    return redirect("queue", name=shown.name)


def _events(shown: Queue) -> QuerySet[Event]:
    """Return what happened in a queue that the reader sees, newest first."""
    return events_joined(Event.objects.filter(queue=shown).exclude(kind__in=NOT_NEWS)).order_by("-id")


def _held_by_owner(user: Any, name: str) -> dict[str, int]:
    """Return the devices that each user's jobs hold now."""
    held: dict[str, int] = {}
    for job in job_list(user, JobFilters(states=tuple(sorted(HOLDING)), queue=name))[:1000]:
        held[job.owner.username] = held.get(job.owner.username, 0) + job.num_gpus
    return held


def _show(
    request: HttpRequest,
    shown: Queue,
    *,
    quota_form: QuotaForm | None = None,
    member_form: MemberForm | None = None,
    conflict: str = "",
    status: int = 200,
) -> HttpResponse:
    user, zone, until = request.user, viewer_zone(request), now_utc()
    detail, device = queue_detail(user, shown), _device(request)
    chosen = request.GET.get("range", "24h")
    chosen = chosen if chosen in SPANS else "24h"
    span, span_s = SPANS[chosen]
    range_, series = series_in(
        Range(since=until - timedelta(seconds=span_s), until=until, words=f"last {span}"),
        zone,
        lambda since, until: series_mean(
            scope=SampleScope.QUEUE,
            scope_id=str(shown.pk),
            names=("held_gpus", "quota_gpus"),
            since=since,
            until=until,
            points=POINTS,
        ),
    )
    waiting = job_list(user, JobFilters(states=(JobState.QUEUED,), queue=shown.name))
    rows = [job_row(job) for job in waiting[:200]]
    rows.sort(key=lambda row: (row["wait_position"] is None, row["wait_position"] or 0, row["number"]))
    held = _held_by_owner(user, shown.name)
    everybody = [*detail["members"], *detail["inherited_members"]]
    members = [{**member, "held_gpus": held.get(member["username"], 0)} for member in everybody]
    initial = {
        "quota_gpus": shown.quota_gpus,
        "max_gpus": shown.max_gpus,
        "weight": shown.weight,
        "may_borrow": shown.may_borrow,
        "version": shown.version,
    }
    context = {
        "queue": detail,
        "device": device,
        "leads": [member["username"] for member in members if member["role"] == Role.LEAD],
        "members": members,
        "waiting": rows[:WAITING_MOST],
        "waiting_more": max(0, len(rows) - WAITING_MOST),
        "scale_gpus": max(1, detail["held_gpus"], detail["quota_gpus"]) * 7 // 6 + 1,
        "ranges": [(f"?range={key}", label, key == chosen) for key, (label, _) in SPANS.items()],
        "share": share_chart(
            name=shown.name,
            color_slot=shown.color_slot,
            series=series,
            range_=range_,
            zone=zone,
            device=device,
        ),
        "quota_form": quota_form or QuotaForm(initial=initial),
        "member_form": member_form or MemberForm(),
        "conflict": conflict,
        "feed": happenings([event_row(event) for event in _events(shown)[:6]]),
        "groups": ["cluster", f"queue.{shown.pk}"],
    }
    return render(request, "queues/queue.html", context, status=status)
