"""Users with their roles and tokens, for admins."""

from django.contrib.auth.models import User
from django.db.models import Count, Prefetch, Q, QuerySet

from scheduler.core.model.errors import NotAllowed, NotFound
from scheduler.core.spec.reading import quoted
from scheduler.models import ApiToken, Identity, Membership
from scheduler.selectors.accounts.rows import UserRow
from scheduler.selectors.times import iso
from scheduler.selectors.visibility import Actor, is_admin


def user_list(user: Actor, search: str = "") -> QuerySet[User]:
    """Return users by name; the caller slices it.

    Raises:
        NotAllowed: ``user`` is no admin.
    """
    if not is_admin(user):
        raise NotAllowed("Only an admin may list users.")
    roles = Prefetch("memberships", Membership.objects.select_related("queue").order_by("queue__name"))
    known = Prefetch("identities", Identity.objects.order_by("issuer"), to_attr="known_at")
    live = Count("api_tokens", filter=Q(api_tokens__revoked_at=None), distinct=True)
    rows = User.objects.prefetch_related(roles, known).annotate(live_tokens=live).order_by("username")
    return rows.filter(Q(username__icontains=search) | Q(email__icontains=search)) if search else rows


def require_user(user: Actor, username: str) -> User:
    """Return one user by name. Raises NotFound, also when ``user`` is no admin."""
    found = user_list(user).filter(username=username).first() if is_admin(user) and "\x00" not in username else None
    if found is None:
        raise NotFound(f"There is no user {quoted(username)} that you may see.")
    return found


def user_row(user: User) -> UserRow:
    """Return one user with roles and the number of live tokens."""
    return {
        "id": str(user.pk),
        "username": user.username,
        "email": user.email,
        "is_admin": user.is_superuser,
        "is_active": user.is_active,
        "last_signed_in_at": iso(user.last_login),
        "joined_at": iso(user.date_joined),
        "queues": [{"name": one.queue.name, "role": one.role} for one in user.memberships.all()],
        "signs_in_by": sorted({one.issuer for one in getattr(user, "known_at", ())}),
        "live_tokens": getattr(user, "live_tokens", 0),
    }


def tokens_of(user: User) -> QuerySet[ApiToken]:
    """Return the tokens of a user, newest first."""
    return ApiToken.objects.filter(user=user).order_by("-created_at", "-pk")
