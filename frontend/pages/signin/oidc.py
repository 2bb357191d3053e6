"""Sign-in by OpenID Connect: redirect to the provider, and back with a code. Authlib implements the protocol.

Checked on the way back: state and PKCE of this browser, the signature by a key of the provider with one of its
asymmetric algorithms, issuer, audience, nonce and times. Local passwords keep working beside it.

What the way back is checked against lies in a signed cookie of a few minutes: a stranger makes no row here.
"""

import logging
from functools import lru_cache
from types import SimpleNamespace
from typing import Any

import requests
from authlib.integrations.base_client import OAuthError
from authlib.integrations.django_client import OAuth
from authlib.oauth2 import OAuth2Error
from django.conf import settings
from django.contrib.auth import login
from django.core import signing
from django.http import HttpRequest, HttpResponse, HttpResponseBase, HttpResponseRedirect
from django.shortcuts import redirect, render, resolve_url
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET
from joserfc.errors import JoseError

from clusterweb.config.oidc import Oidc
from frontend.components.viewer import now_utc
from scheduler.core.model.errors import NotAllowed
from scheduler.selectors.rows import Json
from scheduler.services.accounts.identities import IdTokenClaims, identity_sign_in, strongest
from scheduler.services.accounts.walls import wall_session_end

log = logging.getLogger(__name__)

COOKIE = "oidc"
COOKIE_S = 900
MOST_BEGUN = 4  # sign-ins begun side by side in one browser, and
MOST_NEXT = 400  # characters of where each leads: a cookie has room for 4,096 bytes
TIMEOUT_S = 10
LEEWAY_S = 60
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


class Refused(Exception):
    """The sign-in is refused; the message tells the user why."""


@lru_cache(maxsize=4)
def _provider(oidc: Oidc) -> Any:  # authlib has no types
    registry = OAuth()
    return registry.register(
        "oidc",
        client_id=oidc.client_id,
        client_secret=oidc.client_secret,
        server_metadata_url=f"{oidc.issuer.rstrip('/')}/.well-known/openid-configuration",
        client_kwargs={
            "scope": "openid email profile",
            "code_challenge_method": "S256",
            "default_timeout": TIMEOUT_S,
        },
    )


def _ready(oidc: Oidc) -> Any:  # as above
    """Return the provider with its metadata, reduced to safe algorithms."""
    provider = _provider(oidc)
    metadata = provider.load_server_metadata()
    if metadata.get("issuer") != oidc.issuer:
        _provider.cache_clear()
        raise Refused("The provider calls itself by another name than OIDC_ISSUER does.")
    offered = metadata.get("id_token_signing_alg_values_supported") or ["RS256"]
    metadata["id_token_signing_alg_values_supported"] = [name for name in offered if name in ALGORITHMS]
    return provider


def _back_url(request: HttpRequest) -> str:
    path = reverse("oidc-back")
    return f"{settings.SITE_URL}{path}" if settings.SITE_URL else request.build_absolute_uri(path)


# By state: nonce, PKCE verifier, and where the user wanted to go.
Begun = dict[str, tuple[str, str, str]]


def _begun(request: HttpRequest) -> Begun:
    """Return the sign-ins that this browser has begun; none if the cookie is old or not ours."""
    try:
        begun: Begun = signing.loads(request.COOKIES.get(COOKIE, ""), salt=COOKIE, max_age=COOKIE_S)
    except signing.BadSignature:
        return {}
    return begun


def _keep(response: HttpResponse, begun: Begun) -> None:
    newest = dict(list(begun.items())[-MOST_BEGUN:])
    response.set_cookie(
        COOKIE,
        signing.dumps(newest, salt=COOKIE, compress=True),
        max_age=COOKIE_S,
        path=reverse("oidc"),
        httponly=True,
        samesite="Lax",
        secure=settings.SESSION_COOKIE_SECURE,
    )


@never_cache
@require_GET
def begin(request: HttpRequest) -> HttpResponseBase:
    """Redirect to the provider; ``next`` is followed afterwards, within this site alone."""
    oidc: Oidc | None = settings.OIDC
    if oidc is None:
        return redirect("sign-in")
    wanted = request.GET.get("next", "")
    is_local = url_has_allowed_host_and_scheme(
        wanted, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    )
    try:
        made = _ready(oidc).create_authorization_url(_back_url(request))
    except (Refused, OAuthError, requests.RequestException, ValueError, RuntimeError) as error:
        return _refuse(
            request, "The sign-in provider does not answer as it should. Try again, or use a password.", error
        )
    target = wanted if is_local and len(wanted) <= MOST_NEXT else ""
    response = HttpResponseRedirect(made["url"])
    _keep(response, {**_begun(request), made["state"]: (made["nonce"], made["code_verifier"], target)})
    return response


@never_cache
@require_GET
def back(request: HttpRequest) -> HttpResponseBase:
    """Exchange the code of the provider for claims, and sign in their user."""
    oidc: Oidc | None = settings.OIDC
    if oidc is None:
        return redirect("sign-in")
    begun = _begun(request)
    own = begun.pop(request.GET.get("state", ""), None)
    response = _signed_in(request, oidc, own)
    _keep(response, begun)
    return response


def _signed_in(request: HttpRequest, oidc: Oidc, own: tuple[str, str, str] | None) -> HttpResponse:
    try:
        claims = _claims(oidc, _verified(request, oidc, own))
        user = identity_sign_in(claims, at=now_utc())
    except Refused as error:
        return _refuse(request, str(error), error)
    except NotAllowed as error:
        return _refuse(request, str(error), error)
    except (OAuthError, OAuth2Error, JoseError) as error:
        return _refuse(request, "The provider's answer does not hold. Begin again.", error)
    except (requests.RequestException, ValueError, RuntimeError, KeyError, TypeError) as error:
        return _refuse(request, "The sign-in provider does not answer as it should. Try again.", error)
    wall_session_end(request.session)
    login(request, user, backend="django.contrib.auth.backends.ModelBackend")
    return redirect((own and own[2]) or resolve_url(settings.LOGIN_REDIRECT_URL))


def _verified(request: HttpRequest, oidc: Oidc, own: tuple[str, str, str] | None) -> Json:
    """Exchange the code for a token, and return its claims after every check of the protocol."""
    provider, session = _ready(oidc), dict[str, Any]()
    if own is not None:
        nonce, verifier, _ = own
        data = {"nonce": nonce, "code_verifier": verifier, "redirect_uri": _back_url(request)}
        provider.framework.set_state_data(session, request.GET["state"], data)
    token = provider.authorize_access_token(
        # All that Authlib reads of a request; its session is where it looks for what the browser began with.
        SimpleNamespace(method="GET", GET=request.GET, session=session),
        claims_options={
            "iss": {"essential": True, "value": oidc.issuer},
            "aud": {"essential": True, "value": oidc.client_id},
        },
        leeway=LEEWAY_S,
    )
    found: Json | None = token.get("userinfo")
    if not found or not isinstance(found.get("sub"), str) or not found["sub"]:
        raise Refused("The provider sent no identity.")
    return found


def _claims(oidc: Oidc, said: Json) -> IdTokenClaims:
    email = str(said.get("email") or "")[:254] if said.get("email_verified") is True else ""
    if oidc.domains and email.rpartition("@")[2].lower() not in oidc.domains:
        raise Refused("Only verified addresses of certain domains may sign in here.")
    listed = said.get(oidc.groups_claim) or []
    groups = {listed} if isinstance(listed, str) else {entry for entry in listed if isinstance(entry, str)}
    return IdTokenClaims(
        issuer=oidc.issuer,
        subject=str(said["sub"])[:255],
        name=str(said.get("preferred_username") or email or said.get("name") or ""),
        email=email,
        grants=strongest([(rule.queue, rule.role) for rule in oidc.roles if rule.group in groups]),
        ruled=sorted({rule.queue for rule in oidc.roles}),
    )


def _refuse(request: HttpRequest, words: str, error: Exception) -> HttpResponse:
    log.warning("oidc_refused", extra={"error": f"{type(error).__name__}: {error}"[:300]})
    context = {"refused": words, "oidc": settings.OIDC}
    return render(request, "signin/sign_in.html", context, status=403)
