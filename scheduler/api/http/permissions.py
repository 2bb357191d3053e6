"""Deny by default: a method of a view answers only when the view names a rule for it.

A rule says which scope a token needs and whether its user must be an admin. Roles in queues are not decided here: the
selector or service that the view calls does that, and what a user may not see is not found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rest_framework.exceptions import MethodNotAllowed, NotAuthenticated, PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from scheduler.api.http.authentication import holds_scope, token_of

if TYPE_CHECKING:  # the views load this module to find their default rule
    from rest_framework.views import APIView


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """Who may call one method of a view.

    Attributes:
        scope: What a token must hold; empty: any token will do. Sessions hold every scope.
        admins_only: Whether the user must be an admin.
        public: Whether it may be called without a sign-in.
        open_to_this_machine: Whether a direct caller on the loopback address needs no sign-in.
    """

    scope: str = ""
    admins_only: bool = False
    public: bool = False
    open_to_this_machine: bool = False


PUBLIC = Rule(public=True)
SIGNED_IN = Rule()
READ = Rule(scope="jobs:read")
WRITE_JOBS = Rule(scope="jobs:write")
WRITE_QUEUES = Rule(scope="queues:admin")
WHAT_IF = Rule(scope="whatif")
OWN_ACCESS = Rule(scope="admin")  # a token must not be able to make a stronger one
ADMIN = Rule(scope="admin", admins_only=True)
ADMIN_OR_LOCAL = Rule(scope="admin", admins_only=True, open_to_this_machine=True)
LOOPBACK = frozenset({"127.0.0.1", "::1"})


class InsufficientScope(PermissionDenied):
    """The token is good, but not for this."""

    def __init__(self, scope: str) -> None:
        super().__init__(f"The token lacks the scope {scope}.", code="insufficient_scope")
        self.auth_header = f'Bearer realm="clusterweb", error="insufficient_scope", scope="{scope}"'


def rule_of(view: APIView, method: str) -> Rule | None:
    """Return the rule for a method of a view; HEAD has the rule of GET."""
    rules: Mapping[str, Rule] = getattr(view, "rules", {})
    return rules.get("GET" if method == "HEAD" else method)


def from_this_machine(request: Request) -> bool:
    """Return whether the request comes from this machine directly; a proxy on it forwards requests of others."""
    forwarded = "X-Forwarded-For" in request.headers or "Forwarded" in request.headers
    return request.META.get("REMOTE_ADDR") in LOOPBACK and not forwarded


class DenyUnlessAllowed(BasePermission):
    """Refuse every method without a rule."""

    def has_permission(self, request: Request, view: APIView) -> bool:
        """Return True, or raise what says why not."""
        method = request.method or ""
        if method not in view.allowed_methods:
            raise MethodNotAllowed(method)
        rule = rule_of(view, method)
        if rule is None:
            return False
        if rule.public or (rule.open_to_this_machine and from_this_machine(request)):
            return True
        if not request.user.is_authenticated:
            raise NotAuthenticated("Sign in, or send a token: Authorization: Bearer <token>.")
        if rule.scope and not holds_scope(token_of(request), rule.scope):
            raise InsufficientScope(rule.scope)
        if rule.admins_only and not request.user.is_superuser:
            raise PermissionDenied("Only an admin may do this.")
        return True
