"""Opens the wall on a screen: the code of a link is exchanged for a session that may read the wall and nothing else."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods

from frontend.components.viewer import now_utc
from frontend.pages.wall.words import BAD_CODE
from scheduler.services.accounts.walls import SESSION_KEY, wall_link_of_code, wall_link_used

YEAR_S = 31_536_000


@never_cache
@require_http_methods(["GET", "POST"])
def wall_open(request: HttpRequest) -> HttpResponse:
    """Show the field of the code, which a script fills from behind ``#``; POST takes the code."""
    if request.user.is_authenticated:
        return redirect("wall")  # a person reads it by their own right
    if request.method != "POST":
        return render(request, "wall/open.html")
    link = wall_link_of_code(request.POST.get("code", "").strip())
    if link is None:
        return render(request, "wall/open.html", {"wrong": BAD_CODE}, status=422)
    request.session.flush()  # what the browser held before is over
    request.session[SESSION_KEY] = link.pk
    request.session.set_expiry(YEAR_S)
    wall_link_used(link, at=now_utc())
    return redirect("wall")
