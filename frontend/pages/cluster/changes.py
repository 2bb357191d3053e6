"""Forms of the page of a server that change the server itself: its name and labels, and its removal."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect
from django.views.decorators.http import require_POST

from frontend.components.errors import page
from frontend.components.viewer import now_utc
from scheduler.core.model.errors import Conflict, SpecInvalid
from scheduler.models import Server
from scheduler.selectors.cluster.servers import server_detail
from scheduler.services.cluster.servers import server_change, server_remove


@page
@require_POST
def change(request: HttpRequest, server_id: str) -> HttpResponseBase:
    """Give the server another name and other labels (separated by commas)."""
    row = server_detail(request.user, server_id)
    labels = [label.strip() for label in request.POST.get("labels", "").split(",") if label.strip()]
    try:
        changed = server_change(
            actor=request.user,
            server=Server.objects.get(pk=row["id"]),
            name=request.POST.get("name", "").strip(),
            labels=labels,
            reason=request.POST.get("reason", ""),
            at=now_utc(),
        )
        messages.success(request, f"Name and labels of {changed.name} are saved.")
    except SpecInvalid as error:
        messages.error(request, "Not saved: " + " ".join(entry.detail for entry in error.errors))
    return redirect("server", server_id=row["id"])


@page
@require_POST
def remove(request: HttpRequest, server_id: str) -> HttpResponseBase:
    """Remove the server, if nothing runs on it and it takes no jobs."""
    row = server_detail(request.user, server_id)
    try:
        server = Server.objects.get(pk=row["id"])
        server_remove(actor=request.user, server=server, reason=request.POST.get("reason", ""), at=now_utc())
    except SpecInvalid as error:
        messages.error(request, "Not removed: " + " ".join(entry.detail for entry in error.errors))
        return redirect("server", server_id=row["id"])
    except Conflict as error:
        messages.error(request, str(error))
        return redirect("server", server_id=row["id"])
    messages.success(request, f"{row['name']} is removed. What ran on it keeps its name.")
    return redirect("cluster")
