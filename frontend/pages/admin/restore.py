"""Choose again what was chosen before an earlier change of the settings, after a look at what that would do."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from frontend.components.errors import page
from frontend.components.settings_history import version_before
from frontend.components.settings_question import reason_missing, settings_question
from frontend.components.viewer import now_utc
from frontend.pages.admin.views import require_admin, sent_version
from scheduler.core.model.errors import Conflict, NotFound, SpecInvalid
from scheduler.models import Event
from scheduler.services.cluster.settings import settings_restore, settings_restored


@page
@require_http_methods(["GET", "HEAD", "POST"])
def restore(request: HttpRequest, event: int) -> HttpResponseBase:
    """Show what restoring earlier settings would do; POST restores them."""
    require_admin(request)
    found = Event.objects.filter(kind="settings", pk=min(event, 2**62)).first()
    if found is None:
        raise NotFound("change of settings")
    try:
        return _restored(request, found) if request.method == "POST" else _question(request, found)
    except SpecInvalid as error:
        if wrong := reason_missing(error):
            return _question(request, found, wrong=wrong)
        messages.error(request, " ".join(entry.detail for entry in error.errors))
    except Conflict as error:
        messages.error(request, f"{error} Look at them again, then repeat it.")
    return redirect("admin")


def _question(request: HttpRequest, event: Event, *, wrong: str = "") -> HttpResponseBase:
    question = settings_question(request, changes=settings_restored(event))
    if not (question.changes or wrong):
        messages.info(request, "These settings are in force already.")
        return redirect("admin")
    context = {
        "question": question,
        "wrong": wrong,
        "title": f"Restore version {version_before(event)}?",
        "verb": "Restore",
        "action": reverse("admin-restore", args=[event.pk]),
        "back": f"{reverse('admin')}#earlier",
        "back_name": "Admin",
    }
    return render(request, "components/settings_question.html", context, status=422 if wrong else 200)


def _restored(request: HttpRequest, event: Event) -> HttpResponseBase:
    cluster = settings_restore(
        actor=request.user,
        event=event,
        expected_version=sent_version(request),
        at=now_utc(),
        reason=request.POST.get("reason", ""),
    )
    names = " · ".join((cluster.policy, cluster.locality, cluster.mechanism))
    messages.success(request, f"{names} decide from round {cluster.round_number + 1}.")
    return redirect("admin")
