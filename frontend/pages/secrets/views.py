"""Secrets: those of the reader, and those of one queue. POST sets, replaces or deletes one (field ``do``)."""

from dataclasses import dataclass
from datetime import datetime

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods

from frontend.components.errors import page
from frontend.components.viewer import now_utc
from frontend.pages.secrets.feed import secret_lines
from frontend.pages.secrets.forms import SecretForm
from scheduler.core.model.errors import SpecInvalid
from scheduler.core.spec.env import name_for
from scheduler.models import Job, Queue, Secret
from scheduler.models.queue import Role
from scheduler.selectors.accounts.secrets import jobs_waiting_for, secret_events, secrets_of, secrets_of_queue
from scheduler.selectors.visibility import access_of, require_queue
from scheduler.services.secrets.store import secret_delete, secret_set

OLD_S = 365 * 86_400.0  # a key that was not renewed for so long is told first
EXAMPLE = "WANDB_API_KEY"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretLine:
    """One line of the table.

    Attributes:
        waiting: Jobs that wait and name it: they fail when it is deleted.
    """

    secret: Secret
    is_old: bool
    is_running: bool
    waiting: list[Job]


@page
@never_cache
@sensitive_post_parameters("value")
@require_http_methods(["GET", "HEAD", "POST"])
def secrets(request: HttpRequest) -> HttpResponseBase:
    """Show the reader's own secrets."""
    assert isinstance(request.user, User)
    return _answer(request, None)


@page
@never_cache
@sensitive_post_parameters("value")
@require_http_methods(["GET", "HEAD", "POST"])
def queue_secrets(request: HttpRequest, name: str) -> HttpResponseBase:
    """Show the secrets of a queue to its members; its leads change them."""
    return _answer(request, require_queue(request.user, name))


def _answer(request: HttpRequest, queue: Queue | None) -> HttpResponseBase:
    if request.method != "POST":
        return _show(request, queue, SecretForm(), status=200)
    name, at = request.POST.get("name", ""), now_utc()
    if request.POST.get("do") == "delete":
        secret_delete(actor=request.user, queue=queue, name=name, at=at)
        messages.success(request, f"{name} is deleted. Jobs that run keep its value.")
        return _back(queue)
    form = SecretForm(request.POST)
    if form.is_valid():
        try:
            secret_set(actor=request.user, queue=queue, name=name, value=form.cleaned_data["value"], at=at)
        except SpecInvalid as error:
            for entry in error.errors:
                form.add_error(entry.pointer.strip("/") or None, entry.detail)
        else:
            messages.success(request, f"{name} is kept. Nobody can see its value again.")
            return _back(queue)
    return _show(request, queue, form, status=422)


def _back(queue: Queue | None) -> HttpResponse:
    return redirect("secrets") if queue is None else redirect("queue-secrets", name=queue.name)


def _show(request: HttpRequest, queue: Queue | None, form: SecretForm, *, status: int) -> HttpResponse:
    assert isinstance(request.user, User)
    rows = list(secrets_of(request.user) if queue is None else secrets_of_queue(request.user, queue))
    waiting = jobs_waiting_for(request.user, queue, [row.name for row in rows])
    at = now_utc()
    lines = [_line(row, waiting.get(row.name, []), at=at) for row in sorted(rows, key=lambda row: row.changed_at)]
    access = access_of(request.user)
    context = {
        "queue": queue,
        "may_change": queue is None or access.at_least(queue.pk, Role.LEAD),
        "lines": lines,
        "oldest": lines[0].secret if lines else None,
        "form": form,
        "is_wrong": bool(form.errors),
        "events": secret_lines(secret_events(request.user, queue)),
        "example": EXAMPLE,
        "example_name": lines[0].secret.name if lines else name_for(EXAMPLE),
        "own_address": request.path,
        "queues": [one for one in access.queues().order_by("name") if access.at_least(one.pk, Role.MEMBER)],
    }
    return render(request, "secrets/secrets.html", context, status=status)


def _line(secret: Secret, waiting: list[Job], *, at: datetime) -> SecretLine:
    return SecretLine(
        secret=secret,
        is_old=(at - secret.changed_at).total_seconds() > OLD_S,
        is_running=secret.last_used_by is not None and secret.last_used_by.ended_at is None,
        waiting=waiting,
    )
