"""Webhooks: the list, one webhook with the log of its messages, and actions on it."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from frontend.components.errors import ForLeads, page
from frontend.components.viewer import now_utc
from frontend.pages.webhooks.forms import WHOLE_CLUSTER, WebhookForm
from scheduler.core.model.errors import Conflict, NotAllowed, SpecInvalid
from scheduler.models import Queue, Webhook
from scheduler.models.queue import Role
from scheduler.selectors.accounts.notices import NOTICES
from scheduler.selectors.accounts.webhooks import delivery_counts, require_webhook, webhooks_visible
from scheduler.selectors.visibility import access_of, require_queue
from scheduler.services.accounts.webhooks import webhook_create, webhook_renew_secret, webhook_revoke, webhook_test

LOG_MOST = 100
TONES = {"waiting": ("warn", "clock"), "delivered": ("ok", "check"), "failed": ("bad", "x")}


def _led(request: HttpRequest) -> tuple[list[Queue], bool]:
    """Return the queues whose webhooks the user manages, and whether also webhooks of the whole cluster."""
    access = access_of(request.user)
    led = [queue for queue in access.queues().order_by("name") if access.at_least(queue.pk, Role.LEAD)]
    if not (led or access.is_admin):
        raise ForLeads("Webhooks belong to leads of a queue and to admins. Ask a lead of your queue.")
    return led, access.is_admin


@page
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def webhooks(request: HttpRequest) -> HttpResponseBase:
    """Show the webhooks that the user manages; POST creates one, whose secret is shown this once."""
    queues, whole_cluster = _led(request)
    begin = {"queue": request.GET.get("queue", "")} if "queue" in request.GET else None
    form = WebhookForm(request.POST or None, queues=queues, whole_cluster=whole_cluster, initial=begin)
    secret, made, status = "", None, 200
    if request.method == "POST":
        status = 422
        if form.is_valid():
            try:
                made, secret = _create(request, form)
                form, status = WebhookForm(queues=queues, whole_cluster=whole_cluster), 200
            except SpecInvalid as error:
                for entry in error.errors:
                    form.add_error(entry.pointer.strip("/") or None, entry.detail)
    rows = list(webhooks_visible(request.user).filter(revoked_at=None))
    counts = delivery_counts(rows)
    context = {
        "form": form,
        "secret": secret,
        "made": made,
        "rows": [{"webhook": row, "counts": counts.get(row.pk, {"last_at": None})} for row in rows],
        "is_admin": whole_cluster,
        "curl": f'curl -H "Authorization: Bearer $CLUSTERWEB_TOKEN" {request.build_absolute_uri("/api/v1/webhooks")}',
    }
    return render(request, "webhooks/webhooks.html", context, status=status)


def _create(request: HttpRequest, form: WebhookForm) -> tuple[Webhook, str]:
    data = form.cleaned_data
    queue = None if data["queue"] == WHOLE_CLUSTER else require_queue(request.user, data["queue"])
    return webhook_create(
        actor=request.user, name=data["name"], url=data["url"], notices=data["notices"], queue=queue, at=now_utc()
    )


@page
@require_safe
def webhook(request: HttpRequest, webhook_id: int) -> HttpResponseBase:
    """Show one webhook and its log."""
    return _show(request, require_webhook(request.user, webhook_id), secret="")


def _show(request: HttpRequest, found: Webhook, *, secret: str) -> HttpResponse:
    deliveries = list(found.deliveries.all()[: LOG_MOST + 1])
    rows = [{"delivery": row, "tone": TONES[row.state][0], "icon": TONES[row.state][1]} for row in deliveries]
    context = {
        "webhook": found,
        "notices": [(name, NOTICES[name]) for name in found.notices if name in NOTICES],
        "rows": rows[:LOG_MOST],
        "is_cut": len(deliveries) > LOG_MOST,
        "counts": delivery_counts([found]).get(found.pk, {}),
        "secret": secret,
        "is_admin": access_of(request.user).is_admin,
    }
    return render(request, "webhooks/webhook.html", context)


@page
@require_POST
def test(request: HttpRequest, webhook_id: int) -> HttpResponseBase:
    """Send a test message."""
    found = require_webhook(request.user, webhook_id)
    try:
        webhook_test(actor=request.user, webhook=found, at=now_utc())
        messages.success(request, "A test is on its way. What became of it stands in the log within seconds.")
    except (Conflict, NotAllowed) as error:
        messages.error(request, str(error))
    return redirect("webhook", webhook_id=webhook_id)


@page
@never_cache
@require_POST
def secret(request: HttpRequest, webhook_id: int) -> HttpResponseBase:
    """Replace the secret; the new one is shown this once."""
    found = require_webhook(request.user, webhook_id)
    try:
        made = webhook_renew_secret(actor=request.user, webhook=found, at=now_utc())
    except Conflict as error:
        messages.error(request, str(error))
        return redirect("webhook", webhook_id=webhook_id)
    return _show(request, found, secret=made)


@page
@require_POST
def revoke(request: HttpRequest, webhook_id: int) -> HttpResponseBase:
    """Revoke the webhook: it gets no message any more."""
    found = require_webhook(request.user, webhook_id)
    webhook_revoke(actor=request.user, webhook=found, at=now_utc())
    messages.success(request, f"The webhook {found.name} is revoked. It is told nothing more.")
    return redirect("webhooks")
