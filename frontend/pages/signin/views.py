"""Sign-in and sign-out (Django's), and the user's own page: theme, tokens, mails, password."""

from typing import Any

from django.conf import settings
from django.contrib import messages
from django.contrib.auth import update_session_auth_hash
from django.contrib.auth.forms import AuthenticationForm
from django.contrib.auth.models import User
from django.contrib.auth.views import LoginView, LogoutView
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect, render, resolve_url
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_POST

from frontend.components.viewer import THEME_COOKIE, THEMES, now_utc, viewer_theme
from frontend.pages.signin.failures import WINDOW_S, Failures
from frontend.pages.signin.forms import PasswordForm, TokenForm
from scheduler.core.model.errors import NotAllowed, NotFound, SpecInvalid
from scheduler.models import ApiToken
from scheduler.selectors.accounts.notices import NOTICES, OF_A_USER
from scheduler.selectors.accounts.webhooks import mail_notices
from scheduler.services.accounts.tokens import token_create, token_revoke
from scheduler.services.accounts.users import password_change, sign_in_record
from scheduler.services.accounts.walls import wall_session_end
from scheduler.services.accounts.webhooks import mail_choose

YEAR_S = 31_536_000


class SignIn(LoginView):
    """Django's sign-in with a limit on failures. ``next`` is followed only within this site (Django checks it)."""

    template_name = "signin/sign_in.html"
    redirect_authenticated_user = True

    def get_context_data(self, **kwargs: Any) -> dict[str, Any]:  # Django's own signature
        """Return the variables of the page: the provider of OpenID Connect, and what a sign-in interrupted."""
        unsent = ""
        if "unsent" in self.request.GET:
            unsent = "job" if self.request.GET.get("next", "").startswith(resolve_url("job-new")) else "form"
        return {**super().get_context_data(**kwargs), "oidc": settings.OIDC, "unsent": unsent}

    def post(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:  # Django's own signature
        if self._failures().too_many():
            form = AuthenticationForm(request)
            response = render(request, self.template_name, {"form": form, "blocked": True}, status=429)
            response["Retry-After"] = str(WINDOW_S)
            return response
        return super().post(request, *args, **kwargs)

    def form_invalid(self, form: AuthenticationForm) -> HttpResponse:
        self._failures().count()
        return super().form_invalid(form)

    def form_valid(self, form: AuthenticationForm) -> HttpResponse:
        self._failures().forget()
        wall_session_end(self.request.session)
        sign_in_record(user=form.get_user(), by="password", at=now_utc())
        return super().form_valid(form)

    def _failures(self) -> Failures:
        return Failures(self.request, self.request.POST.get("username", ""))


class SignOut(LogoutView):
    """Sign out, by POST only."""

    http_method_names = ["post", "options"]


def _tokens(request: HttpRequest) -> list[ApiToken]:
    return list(
        ApiToken.objects.filter(user__username=request.user.get_username(), revoked_at__isnull=True).order_by(
            "-created_at", "-pk"
        )
    )


@never_cache
@require_http_methods(["GET", "POST"])
def me(request: HttpRequest) -> HttpResponseBase:
    """Show the user's theme and tokens; POST creates a token, whose text is shown this once."""
    form, secret, status = TokenForm(request.POST or None, user=request.user), "", 200
    if request.method == "POST":
        status = 422
        if form.is_valid():
            at = now_utc()
            try:
                _, secret = token_create(
                    actor=request.user,
                    name=form.cleaned_data["name"],
                    scopes=form.cleaned_data["scopes"],
                    expires_at=at + form.lasts(),
                    at=at,
                )
                form, status = TokenForm(user=request.user), 200
            except (SpecInvalid, NotAllowed) as error:
                form.add_error(None, str(error))
    tokens = _tokens(request)
    url = request.build_absolute_uri("/api/v1/jobs")
    context = {
        "form": form,
        "secret": secret,
        "tokens": tokens,
        "themes": THEMES,
        "chosen": viewer_theme(request),
        "mails": [(name, NOTICES[name], name in mail_notices(request.user)) for name in OF_A_USER],
        "mails_are_sent": settings.MAILS_ARE_SENT,
        "curl": f'curl -H "Authorization: Bearer $CLUSTERWEB_TOKEN" {url}',
    }
    return render(request, "signin/me.html", context, status=status)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
def password(request: HttpRequest) -> HttpResponseBase:
    """Change the user's password; this session goes on, all others and the tokens end."""
    if not (isinstance(request.user, User) and request.user.has_usable_password()):
        messages.error(request, "You sign in by a provider: there is no password here.")
        return redirect("me")
    form = PasswordForm(request.user, request.POST or None)
    if request.method == "POST" and form.is_valid():
        password_change(user=request.user, password=form.cleaned_data["new_password1"], at=now_utc())
        update_session_auth_hash(request, request.user)
        messages.success(request, "The password is changed. Other sessions and your tokens have ended.")
        return redirect("me")
    return render(request, "signin/password.html", {"form": form}, status=422 if form.errors else 200)


@require_POST
def mails(request: HttpRequest) -> HttpResponseRedirect:
    """Keep which notices the user gets by mail."""
    try:
        choice = mail_choose(actor=request.user, notices=request.POST.getlist("notices"), at=now_utc())
        words = f"{len(choice.notices)} kinds of mail are sent" if choice.notices else "No mail is sent to you"
        messages.success(request, f"{words}.")
    except SpecInvalid as error:
        messages.error(request, " ".join(entry.detail for entry in error.errors))
    return redirect("me")


@require_POST
def token_end(request: HttpRequest, token_id: int) -> HttpResponseRedirect:
    """Revoke one of the user's tokens."""
    token = next((token for token in _tokens(request) if token.pk == token_id), None)
    try:
        if token is None:
            raise NotFound(f"token {token_id}")
        token_revoke(actor=request.user, token=token, at=now_utc())
        messages.success(request, f"The token {token.name} is revoked.")
    except NotFound:
        messages.error(request, "There is no such token any more.")
    return redirect("me")


@require_POST
def theme(request: HttpRequest) -> HttpResponseRedirect:
    """Keep the chosen theme in a cookie and go back; scripts do the same without a request."""
    chosen, target = request.POST.get("theme", ""), request.POST.get("next", "")
    local = url_has_allowed_host_and_scheme(
        target, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    # ``redirect`` takes text without a leading slash for the name of a route.
    response = redirect(target if local and target.startswith("/") else "me")
    if chosen in THEMES:
        response.set_cookie(THEME_COOKIE, chosen, max_age=YEAR_S, samesite="Lax", secure=request.is_secure())
    return response
