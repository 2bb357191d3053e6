"""Forms of the page of a server that change the server itself; each asks why, for the audit.

They are its name and labels, drain and undrain, its size, whether queues mix on it, and its removal.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

from django.contrib import messages
from django.http import HttpRequest, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from frontend.components.errors import page
from frontend.components.viewer import now_utc
from frontend.pages.cluster.words import drain_effect
from scheduler.core.model.errors import Conflict, NotAllowed, SpecInvalid
from scheduler.models import Server
from scheduler.selectors.cluster.rows import ServerDetailRow
from scheduler.selectors.cluster.servers import server_detail
from scheduler.selectors.visibility import is_admin
from scheduler.services.cluster.servers import (
    server_change,
    server_drain,
    server_mix_queues,
    server_remove,
    server_size_confirm,
    server_undrain,
)

# What an agent claims of its machine.
CLAIMED = ("num_cpus", "memory_bytes", "num_gpus", "gpu_memory_bytes")
UNDRAIN_EFFECT = "Rounds may start jobs on it again."


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What the form says that asks why; its button repeats the title."""

    title: str
    effect: str
    is_danger: bool


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


@page
@require_http_methods(["GET", "HEAD", "POST"])
def drain(request: HttpRequest, server_id: str) -> HttpResponseBase:
    """Ask for a reason and drain the server; the same form stands in a dialog where scripts run."""
    row = server_detail(request.user, server_id)
    if not is_admin(request.user):
        raise NotAllowed("Only an admin may drain servers.")
    question = Question(title=f"Drain {row['name']}", effect=drain_effect(row), is_danger=True)
    done = f"{row['name']} is draining. Nothing new starts on it."
    return _asked(request, row, question, server_drain, done)


@page
@require_http_methods(["GET", "HEAD", "POST"])
def undrain(request: HttpRequest, server_id: str) -> HttpResponseBase:
    """Ask for a reason and undrain the server."""
    row = server_detail(request.user, server_id)
    if not is_admin(request.user):
        raise NotAllowed("Only an admin may undrain servers.")
    question = Question(title=f"Undrain {row['name']}", effect=UNDRAIN_EFFECT, is_danger=False)
    return _asked(
        request, row, question, server_undrain, f"{row['name']} is undrained: jobs may start on it from the next round."
    )


def _asked(
    request: HttpRequest, row: ServerDetailRow, question: Question, act: Callable[..., Server], done: str
) -> HttpResponseBase:
    """Show the form that asks why; POST does it."""
    problem, typed = "", request.POST.get("reason", "")
    if request.method == "POST":
        try:
            act(actor=request.user, server=Server.objects.get(pk=row["id"]), reason=typed, at=now_utc())
            messages.success(request, done)
            return redirect("server", server_id=row["id"])
        except SpecInvalid as error:
            problem = " ".join(entry.detail for entry in error.errors)
        except Conflict as error:
            messages.error(request, str(error))
            return redirect("server", server_id=row["id"])
    context = {"server": row, "question": question, "problem": problem, "typed": typed}
    return render(request, "cluster/asked.html", context, status=422 if problem else 200)


@page
@require_POST
def size(request: HttpRequest, server_id: str) -> HttpResponseBase:
    """Believe the size that the server claims, if it is the one that was shown."""
    row = server_detail(request.user, server_id)
    sent = {name: request.POST.get(name, "") for name in CLAIMED}
    size = {name: int(text) for name, text in sent.items() if re.fullmatch(r"[0-9]{1,19}", text)}
    try:
        server = Server.objects.get(pk=row["id"])
        reason = request.POST.get("reason", "")
        server_size_confirm(actor=request.user, server=server, size=size, reason=reason, at=now_utc())
        messages.success(request, f"{row['name']} is believed from its next report on.")
    except SpecInvalid as error:
        messages.error(request, "Not confirmed: " + " ".join(entry.detail for entry in error.errors))
    except Conflict as error:
        messages.error(request, str(error))
    return redirect("server", server_id=row["id"])


@page
@require_POST
def mix(request: HttpRequest, server_id: str) -> HttpResponseBase:
    """Let jobs of several queues run on the server although nothing keeps them apart, or no longer."""
    row = server_detail(request.user, server_id)
    allowed, reason = request.POST.get("allowed") == "1", request.POST.get("reason", "")
    try:
        server = Server.objects.get(pk=row["id"])
        changed = server_mix_queues(actor=request.user, server=server, allowed=allowed, reason=reason, at=now_utc())
        what = "jobs of several queues" if allowed else "jobs of one queue alone"
        messages.success(request, f"{changed.name} takes {what} from the next round.")
    except SpecInvalid as error:
        messages.error(request, "Not changed: " + " ".join(entry.detail for entry in error.errors))
    return redirect("server", server_id=row["id"])
