"""Pages of the queues: the list, and one queue with its tabs."""

from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import render
from django.views.decorators.http import require_http_methods

from frontend.components.devices import DeviceWord, device_word
from frontend.components.errors import page
from frontend.components.viewer import QUEUE_COOKIE, viewer_zone
from frontend.pages.queues.creation import queue_form, queue_sent
from frontend.pages.queues.members import member_removed, member_sent, members_context
from frontend.pages.queues.overview import overview_context
from frontend.pages.queues.quota import files_sent, idle_sent, isolation_sent, limits_sent, quota_context, quota_sent
from frontend.pages.queues.ranges import asked_range, range_links
from frontend.pages.queues.requests import (
    asked_in,
    request_changed,
    request_refused,
    request_sent,
    request_withdrawn,
    requests_context,
)
from frontend.pages.queues.sent import Sent
from frontend.pages.queues.use import usage_context
from scheduler.core.model.errors import NotAllowed
from scheduler.models import Queue
from scheduler.models.queue import Role
from scheduler.selectors.cluster.servers import server_list
from scheduler.selectors.queues.tree import queue_detail, queue_list
from scheduler.selectors.visibility import access_of, require_queue

TABS = {
    "overview": "Overview",
    "quota": "Quota",
    "requests": "Requests",
    "members": "Members",
    "usage": "Usage and loans",
}
RANGED = frozenset({"overview", "usage"})
YEAR_S = 31_536_000
# Which tab shows the outcome of a form; the field ``do`` names the form.
SENT_TO = {
    "quota": "quota",
    "preview": "quota",
    "farther": "quota",
    "limits": "quota",
    "idle": "quota",
    "isolation": "quota",
    "files": "quota",
    "ask": "requests",
    "change": "requests",
    "refuse": "quota",
    "withdraw": "requests",
    "member": "members",
    "remove": "members",
}


def _device(request: HttpRequest) -> DeviceWord:
    return device_word(server["device_kind"] for server in server_list(request.user))


@page
@require_http_methods(["GET", "HEAD", "POST"])
def queues(request: HttpRequest) -> HttpResponseBase:
    """Show every queue in which the user has a role; POST creates one, for admins alone."""
    device = _device(request)
    sent = queue_sent(request, device) if request.method == "POST" else Sent(context={"form": queue_form(request)})
    if sent.to:
        return sent.to
    rows = queue_list(request.user)
    scale = max((max(row["held_gpus"], row["quota_gpus"]) for row in rows), default=1)
    context = {
        "rows": rows,
        "scale_gpus": scale + max(1, scale // 6),
        "device": device,
        "held": sum(row["held_gpus"] for row in rows if not row["parent"]),
        "waiting": sum(row["waiting_jobs"] for row in rows if not row["parent"]),
        "groups": ["cluster", *(f"queue.{row['id']}" for row in rows[:50])],
    }
    return render(request, "queues/queues.html", {**context, **sent.context}, status=sent.status)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def queue(request: HttpRequest, name: str) -> HttpResponseBase:
    """Show one queue; POST changes its quota, its limits or its members (field ``do``)."""
    shown = require_queue(request.user, name)
    if request.method != "POST":
        tab = request.GET.get("tab", "overview")
        response = _show(request, shown, tab if tab in TABS else "overview", Sent())
        response.set_cookie(QUEUE_COOKIE, shown.name, max_age=YEAR_S, samesite="Lax", secure=request.is_secure())
        return response
    doing = request.POST.get("do", "")
    send = {
        "quota": quota_sent,
        "preview": quota_sent,
        "farther": quota_sent,
        "limits": limits_sent,
        "idle": idle_sent,
        "isolation": isolation_sent,
        "files": files_sent,
        "ask": request_sent,
        "change": request_changed,
        "refuse": request_refused,
        "withdraw": request_withdrawn,
        "member": member_sent,
    }
    sent = send.get(doing, member_removed)(request, shown)
    return sent.to or _show(request, shown, SENT_TO.get(doing, "members"), sent)


def _show(request: HttpRequest, shown: Queue, tab: str, sent: Sent) -> HttpResponse:
    detail, device = queue_detail(request.user, shown), _device(request)
    range_ = asked_range(request)
    users = [*detail["members"], *detail["inherited_members"]]
    may_ask = detail["may_limit_users"]
    if tab == "quota" and not may_ask:
        raise NotAllowed(f"Only leads of {shown.name} and admins see what its quota could be.")
    context: dict[str, object] = {
        "queue": detail,
        "device": device,
        "leads": sorted({member["username"] for member in users if member["role"] == Role.LEAD}),
        "num_members": len({member["username"] for member in users}),
        "scale_gpus": max(1, detail["held_gpus"], detail["quota_gpus"]) * 7 // 6 + 1,
        "tab": tab,
        "tabs": [(key, label) for key, label in TABS.items() if key != "quota" or may_ask],
        "ranges": range_links(tab, range_, viewer_zone(request)) if tab in RANGED else [],
        "tab_template": f"queues/tab_{tab}.html",
        "groups": ["cluster", f"queue.{shown.pk}"],
        "may_use_secrets": access_of(request.user).at_least(shown.pk, Role.MEMBER),
    }
    if tab == "overview":
        context |= overview_context(request.user, shown, range_, zone=viewer_zone(request), device=device)
    elif tab == "quota":
        named = request.POST.get("request") or request.GET.get("request", "")
        asked = asked_in(request.user, shown, named)
        context |= quota_context(
            request.user,
            shown,
            sent.context,
            device=device,
            may_change=detail["may_change_quota"],
            asked=asked,
            typed_gpus=request.GET.get("gpus", ""),
        )
    elif tab == "requests":
        context |= requests_context(request.user, shown, sent.context, typed_gpus=request.GET.get("gpus", ""))
    elif tab == "members":
        context |= members_context(request.user, shown, detail)
    else:
        context |= usage_context(request.user, shown, range_, device)
    return render(request, "queues/queue.html", {**context, **sent.context}, status=sent.status)
