"""Links that open the wall on a screen: made, shown once, revoked."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from frontend.components.errors import page
from frontend.components.viewer import now_utc
from frontend.pages.admin.views import require_admin
from scheduler.core.model.errors import FieldError, SpecInvalid
from scheduler.models import WallLink
from scheduler.services.accounts.walls import wall_link_create, wall_link_revoke


@page
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def walls(request: HttpRequest) -> HttpResponse:
    """Show the live links; POST makes one, which is shown this once."""
    require_admin(request)
    made, errors = "", list[FieldError]()
    if request.method == "POST":
        try:
            _, code = wall_link_create(
                actor=request.user,
                name=request.POST.get("name", "").strip(),
                shows_names=request.POST.get("shows_names") == "on",
                at=now_utc(),
            )
            made = f"{request.build_absolute_uri(reverse('wall-open'))}#{code}"
        except SpecInvalid as error:
            errors = error.errors
    context = {
        "links": WallLink.objects.filter(revoked_at=None).select_related("created_by").order_by("-created_at", "-pk"),
        "made": made,
        "error": errors[0].detail if errors else "",
        "typed": request.POST if errors else {},
    }
    return render(request, "admin/walls.html", context, status=422 if errors else 200)


@page
@require_POST
def wall_revoke(request: HttpRequest, link_id: int) -> HttpResponseBase:
    """End a link and the screens that it opened."""
    require_admin(request)
    link = wall_link_revoke(actor=request.user, link_id=link_id, at=now_utc())
    messages.success(request, f"The link {link.name} is revoked. Its screens go dark within seconds.")
    return redirect("admin-walls")
