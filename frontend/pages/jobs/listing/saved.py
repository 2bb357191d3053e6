"""Keep and remove saved views of the job list; remove templates."""

from django.contrib import messages
from django.contrib.auth.models import User
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render, resolve_url
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from frontend.pages.jobs.submit.views import found_template
from scheduler.core.model.errors import NotAllowed, NotFound, SpecInvalid
from scheduler.ports import live_ports
from scheduler.services.queues.saved import template_delete, view_delete, view_save


@require_POST
def view_keep(request: HttpRequest) -> HttpResponse:
    """Keep the present filters of the job list under a name."""
    assert isinstance(request.user, User)
    query = request.POST.get("query", "").lstrip("?")
    try:
        view = view_save(user=request.user, name=request.POST.get("name", ""), query=query, at=live_ports().clock.now())
    except SpecInvalid as invalid:
        messages.error(request, " ".join(error.detail for error in invalid.errors))
    else:
        messages.success(request, f"The view {view.name} is kept.")
    return HttpResponseRedirect(f"{resolve_url('jobs')}?{query[:500]}")


@require_POST
def view_remove(request: HttpRequest, view: int) -> HttpResponse:
    """Remove a view; its link can be made again from its filters at any time."""
    assert isinstance(request.user, User)
    try:
        view_delete(user=request.user, view_id=view, at=live_ports().clock.now())
    except NotFound as error:
        raise Http404(str(error)) from None
    messages.success(request, "The view is removed.")
    return HttpResponseRedirect(resolve_url("jobs"))


@never_cache
@require_http_methods(["GET", "POST"])
def template_remove(request: HttpRequest, template: int) -> HttpResponse:
    """Ask, then remove a template."""
    found = found_template(request, template)
    if request.method != "POST":
        return render(request, "jobs/template_remove.html", {"template": found})
    try:
        template_delete(actor=request.user, template_id=found.pk, at=live_ports().clock.now())
    except NotAllowed as refused:
        messages.error(request, str(refused))
    else:
        messages.success(request, f"The template {found.name} is removed.")
    return HttpResponseRedirect(resolve_url("job-new"))
