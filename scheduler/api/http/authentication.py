"""Authentication of a request: a bearer token of the REST API, or the session of a signed-in browser.

A token's scopes are checked here; what its user may do is decided by roles, in selectors and services.
"""

from typing import Any

from django.contrib.auth.models import User
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from scheduler.models import ApiToken
from scheduler.ports import live_ports
from scheduler.services.accounts.tokens import token_user

# What else a scope lets its token do. A token with ``admin`` may do all that its user may.
IMPLIED = {
    "jobs:read": frozenset({"jobs:read"}),
    "jobs:write": frozenset({"jobs:read", "jobs:write"}),
    "queues:admin": frozenset({"jobs:read", "queues:admin"}),
    "whatif": frozenset({"whatif"}),
    "admin": frozenset({"jobs:read", "jobs:write", "queues:admin", "whatif", "admin"}),
}


def bearer_text(header: str) -> str | None:
    """Return the token in an ``Authorization`` header, or None when it is of another scheme."""
    scheme, _, text = header.partition(" ")
    return text.strip() if scheme.lower() == "bearer" else None


class BearerAuthentication(BaseAuthentication):
    """``Authorization: Bearer <token>``. A wrong token is refused, also beside a valid session."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        """Return user and token, or None when the request carries no bearer token."""
        text = bearer_text(request.headers.get("Authorization", ""))
        if text is None:
            return None
        found = token_user(text, live_ports().clock.now())
        if found is None:
            raise AuthenticationFailed("The token is unknown, expired or revoked.")
        return found

    def authenticate_header(self, request: Request) -> str:
        """Return the challenge of a 401 answer."""
        return 'Bearer realm="clusterweb"'


def signed_in(request: Request) -> User:
    """Return the user of a request that passed a rule which asks for one."""
    assert isinstance(request.user, User)
    return request.user


def token_of(request: Request) -> ApiToken | None:
    """Return the token of a request; None for a session."""
    return request.auth if isinstance(request.auth, ApiToken) else None


def holds_scope(token: ApiToken | None, scope: str) -> bool:
    """Return whether a request with this token may use ``scope``; a session (None) holds every scope."""
    return token is None or any(scope in IMPLIED.get(held, ()) for held in token.scopes)


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # drf-spectacular types little
    """How the OpenAPI document describes tokens."""

    target_class = "scheduler.api.http.authentication.BearerAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:  # drf-spectacular has no types
        """Return the security scheme."""
        return {
            "type": "http",
            "scheme": "bearer",
            "description": "A token made under /api/v1/tokens. It carries scopes and ends.",
        }
