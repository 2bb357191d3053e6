"""The admin page: settings of the scheduler, pause, servers, and the newest changes that users made."""

import json
from urllib.parse import urlencode

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from frontend.components.devices import device_word
from frontend.components.errors import page
from frontend.components.happenings import happenings
from frontend.components.viewer import now_utc
from frontend.pages.admin.earlier import earlier_settings
from frontend.pages.admin.plain_fields import (
    plain_fields,
    reason_field,
    reason_said,
    seconds_field,
    settings_problems,
    told,
)
from frontend.pages.admin.settings_form import changes_from, labelled, sections
from frontend.pages.admin.starts import starts_view
from scheduler.core.model.errors import Conflict, FieldError, NotFound, SpecInvalid
from scheduler.models import Event
from scheduler.selectors.cluster.servers import server_list
from scheduler.selectors.events import event_row, events_joined
from scheduler.selectors.visibility import is_admin
from scheduler.services.cluster.settings import (
    cluster_row,
    settings_change,
    settings_checked,
    settings_of,
)
from scheduler.simulator.study.variants import ARM_FIELDS

AUDIT_MOST = 30
# Changes that a user makes for other users; actions on jobs are in the events of the jobs.
AUDITED = (
    "settings",
    "shadow",
    "quota",
    "quota_answer",
    "prices",
    "budget",
    "user_limits",
    "idle_rule",
    "isolation",
    "kept_files",
    "queue",
    "membership",
    "server_state",
    "server_mix",
    "server_change",
    "server_removal",
    "token",
    "webhook",
    "user",
)


def require_admin(request: HttpRequest) -> None:
    """Answer 404 to users who are no admins."""
    if not is_admin(request.user):
        raise NotFound("admin")


def sent_version(request: HttpRequest) -> int:
    """Return the version that a form was made from; -1 when it holds none."""
    text = request.POST.get("version", "")
    return int(text) if text.isdigit() and len(text) < 18 else -1


@page
@require_http_methods(["GET", "POST"])
def admin(request: HttpRequest) -> HttpResponseBase:
    """Show the settings; POST changes them from the next round on."""
    require_admin(request)
    if request.method != "POST":
        return _show(request)
    if request.POST.get("do") == "compare":
        return _compare(request)
    changes, reason = changes_from(request.POST.dict()), request.POST.get("reason", "")
    if problems := settings_problems(changes, reason):
        return _show(request, errors=problems, status=422)
    try:
        cluster = settings_change(
            actor=request.user, changes=changes, expected_version=sent_version(request), at=now_utc(), reason=reason
        )
    except SpecInvalid as error:
        return _show(request, errors=error.errors, status=422)
    except Conflict as error:
        return _show(request, conflict=str(error), status=409)
    names = " · ".join((cluster.policy, cluster.locality, cluster.mechanism))
    messages.success(request, f"{names} decide from round {cluster.round_number + 1}.")
    return redirect("admin")


def _compare(request: HttpRequest) -> HttpResponseBase:
    """Go on to a what-if that compares what was edited with the settings in force; nothing is saved."""
    changes = changes_from(request.POST.dict())
    try:
        settings_checked(settings_of(cluster_row()), changes)
    except SpecInvalid as error:
        return _show(request, errors=error.errors, status=422)
    asked = urlencode({"settings": json.dumps({name: changes[name] for name in changes if name in ARM_FIELDS})})
    return redirect(f"{reverse('what-if-new')}?{asked}")


@page
@require_POST
def pause(request: HttpRequest) -> HttpResponseBase:
    """Pause scheduling or go on."""
    require_admin(request)
    wanted = request.POST.get("paused") == "1"
    try:
        cluster = settings_change(
            actor=request.user,
            changes={"paused": wanted},
            expected_version=sent_version(request),
            at=now_utc(),
            reason=request.POST.get("reason", ""),
        )
    except SpecInvalid as error:
        return _show(request, elsewhere={"pause": _details(error)}, status=422)
    except Conflict as error:
        messages.error(request, f"{error} Look at them again, then repeat it.")
        return redirect("admin")
    word = "Scheduling is paused" if cluster.paused else "Scheduling goes on"
    messages.success(request, f"{word} from round {cluster.round_number + 1}.")
    return redirect("admin")


def _details(error: SpecInvalid) -> str:
    return " ".join(entry.detail[:1].upper() + entry.detail[1:] for entry in error.errors)


def _show(
    request: HttpRequest,
    *,
    errors: list[FieldError] | None = None,
    elsewhere: dict[str, str] | None = None,
    conflict: str = "",
    status: int = 200,
) -> HttpResponse:
    """Show the page.

    Args:
        errors: What is wrong with the sent settings.
        elsewhere: What is wrong with the reason of another form of the page, by its name: ``pause``.
    """
    errors = labelled(reason_said(errors or []))
    cluster, servers = cluster_row(), server_list(request.user)
    device = device_word(row["device_kind"] for row in servers)
    post = request.POST.dict() if request.method == "POST" and not elsewhere else None
    # After a conflict the form keeps what was typed but takes the new version: a user who saves again has been warned.
    audit = Event.objects.filter(kind__in=AUDITED).order_by("-id")
    context = {
        "cluster": cluster,
        "next_round": cluster.round_number + 1,
        "least_run": seconds_field("min_run_s", cluster, post, errors),
        "smoke": seconds_field("smoke_run_s", cluster, post, errors),
        "volume": plain_fields(cluster, post, errors),
        "why": reason_field(post, errors),
        "sections": sections(cluster, device, post=post, errors=errors),
        "errors": told(errors, post),
        "elsewhere": elsewhere or {},
        "conflict": conflict,
        "servers": servers,
        "earlier": earlier_settings(),
        "starts": starts_view(now_utc()),
        "audit": happenings([event_row(event) for event in events_joined(audit)[:AUDIT_MOST]], device),
    }
    return render(request, "admin/admin.html", context, status=status)
