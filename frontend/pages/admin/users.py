"""Users for admins: the list, and one user with roles, tokens and latest changes."""

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseBase
from django.shortcuts import redirect, render
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from frontend.components.errors import page
from frontend.components.viewer import now_utc
from frontend.pages.admin.views import require_admin
from scheduler.core.model.errors import Conflict, FieldError, NotFound, SpecInvalid
from scheduler.selectors.accounts.audit import audit_list, audit_row
from scheduler.selectors.accounts.users import require_user, tokens_of, user_list
from scheduler.services.accounts.tokens import token_revoke
from scheduler.services.accounts.users import user_change, user_create, user_set_active

ON_A_PAGE = 100
TOKENS_SHOWN = 50


@page
@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def users(request: HttpRequest) -> HttpResponseBase:
    """Show users by name (``?search=&after=<name>``); POST creates one, whose password is shown this once."""
    require_admin(request)
    password, made, errors = "", None, list[FieldError]()
    if request.method == "POST":
        try:
            made, password = user_create(
                actor=request.user,
                username=request.POST.get("username", "").strip(),
                email=request.POST.get("email", ""),
                at=now_utc(),
            )
        except SpecInvalid as error:
            errors = error.errors
    search = request.GET.get("search", "").strip()[:150].replace("\x00", "")
    rows = user_list(request.user, search)
    after = request.GET.get("after", "")[:150].replace("\x00", "")
    found = list((rows.filter(username__gt=after) if after else rows)[: ON_A_PAGE + 1])
    context = {
        "rows": found[:ON_A_PAGE],
        "after": found[ON_A_PAGE - 1].username if len(found) > ON_A_PAGE else "",
        "total": rows.count(),
        "admins": rows.filter(is_superuser=True, is_active=True).count(),
        "search": search,
        "made": made,
        "password": password,
        "errors": {error.pointer.strip("/"): error.detail for error in errors},
        "typed": request.POST if errors else {},
    }
    return render(request, "admin/users.html", context, status=422 if errors else 200)


@page
@require_safe
def user(request: HttpRequest, username: str) -> HttpResponseBase:
    """Show one user."""
    require_admin(request)
    return _show(request, username)


def _show(request: HttpRequest, username: str, *, problem: str = "") -> HttpResponse:
    found = require_user(request.user, username)
    now, tokens = now_utc(), list(tokens_of(found)[:TOKENS_SHOWN])
    for token in tokens:
        ended = token.revoked_at is not None or (token.expires_at is not None and token.expires_at <= now)
        token.is_live = not ended  # type: ignore[attr-defined]  # for the template
    context = {
        "person": found,
        "is_self": found.pk == request.user.pk,
        "tokens": tokens,
        "problem": problem,
        "did": [audit_row(event) for event in audit_list(request.user, who=found.username)[:10]],
    }
    return render(request, "admin/user.html", context, status=422 if problem else 200)


@page
@require_POST
def user_edit(request: HttpRequest, username: str) -> HttpResponseBase:
    """Change the mail address, keep the user out, or let the user in again."""
    require_admin(request)
    found, at = require_user(request.user, username), now_utc()
    try:
        if "email" in request.POST:
            user_change(actor=request.user, user=found, email=request.POST["email"], at=at)
            messages.success(request, f"Mails of {found.username} go to {found.email or 'nobody'}.")
        elif request.POST.get("active") in ("0", "1"):
            active = request.POST["active"] == "1"
            user_set_active(actor=request.user, user=found, active=active, at=at)
            words = "may sign in again" if active else "is kept out: sessions and tokens are refused from now on"
            messages.success(request, f"{found.username} {words}.")
    except SpecInvalid as error:
        return _show(request, username, problem=error.errors[0].detail)
    except Conflict as error:
        messages.error(request, str(error))
    return redirect("admin-user", username=username)


@page
@require_POST
def user_token_end(request: HttpRequest, username: str, token_id: int) -> HttpResponseBase:
    """Revoke a token of the user."""
    require_admin(request)
    token = tokens_of(require_user(request.user, username)).filter(pk=token_id).first()
    if token is None:
        raise NotFound("token")
    token_revoke(actor=request.user, token=token, at=now_utc())
    messages.success(request, f"The token {token.name} of {username} is revoked.")
    return redirect("admin-user", username=username)
