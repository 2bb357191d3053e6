"""Links that open the wall on a screen: made and revoked by admins, shown once, stored as a hash.

The code stands behind ``#`` in the link, so that neither a server nor a proxy gets it with an address; the page behind
the link sends it once and is given a session that may read the wall and nothing else.
"""

import hashlib
import secrets
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from django.contrib.auth.models import User
from django.contrib.sessions.backends.base import SessionBase
from django.db import transaction

from scheduler.core.model.errors import NotFound
from scheduler.core.spec.reading import shown
from scheduler.models import WallLink
from scheduler.selectors.visibility import Actor
from scheduler.services.events import event_record
from scheduler.services.inputs import Problems
from scheduler.services.permission import require_admin

NAME_CHARS = 80
MOST_LINKS = 50
USE_NOTED_EVERY = timedelta(minutes=1)
SESSION_KEY = "wall"  # of a session: the link that it was given for


def wall_link_create(*, actor: Actor, name: str, shows_names: bool, at: datetime) -> tuple[WallLink, str]:
    """Return a new link and its code, which is not kept.

    Raises:
        NotAllowed: ``actor`` is no admin.
        SpecInvalid: A bad name, or too many links.
    """
    require_admin(actor, "make links to the wall")
    assert isinstance(actor, User)  # an admin is signed in
    problems = Problems()
    name = problems.text("name", name, least=1, most=NAME_CHARS)
    if WallLink.objects.filter(revoked_at=None).count() >= MOST_LINKS:
        problems.add("name", "count", f"There are {MOST_LINKS} links. Revoke one first.")
    problems.refuse()
    code = secrets.token_urlsafe(32)
    with transaction.atomic():
        link = WallLink.objects.create(
            name=name, sha256=_digest(code), shows_names=shows_names, created_by=actor, created_at=at
        )
        data = {"name": name, "shows_names": shows_names}
        event_record(kind="wall", actor=actor, at=at, reason="create", data=data)
    return link, code


def wall_link_revoke(*, actor: Actor, link_id: int, at: datetime) -> WallLink:
    """End a link and every screen that it opened; ending it again changes nothing.

    Raises:
        NotAllowed: ``actor`` is no admin.
        NotFound: There is no such link.
    """
    require_admin(actor, "revoke links to the wall")
    with transaction.atomic():
        link = WallLink.objects.select_for_update().filter(pk=link_id).first() if link_id < 2**63 else None
        if link is None:
            raise NotFound(f"There is no link {shown(link_id)} to the wall.")
        if link.revoked_at is None:
            link.revoked_at = at
            link.save(update_fields=["revoked_at"])
            event_record(kind="wall", actor=actor, at=at, reason="revoke", data={"name": link.name})
    return link


def wall_link_of_code(code: str) -> WallLink | None:
    """Return the live link with this code."""
    return _live(sha256=_digest(code)) if len(code) <= 200 else None


def wall_link_of_session(session: Mapping[str, Any]) -> WallLink | None:
    """Return the live link that a session was given for."""
    pk = session.get(SESSION_KEY)
    return _live(pk=pk) if isinstance(pk, int) else None


def wall_session_end(session: SessionBase) -> None:
    """End the session of a screen where a person signs in: theirs lasts as long as any other, and not a year."""
    if SESSION_KEY in session:
        session.flush()


def wall_link_used(link: WallLink, *, at: datetime) -> None:
    """Note that a screen reads, at most once a minute."""
    if link.last_used_at is None or at - link.last_used_at > USE_NOTED_EVERY:
        WallLink.objects.filter(pk=link.pk).update(last_used_at=at)


def _live(**which: object) -> WallLink | None:
    makers = {"created_by__is_active": True, "created_by__is_superuser": True}
    return WallLink.objects.select_related("created_by").filter(revoked_at=None, **makers, **which).first()


def _digest(code: str) -> str:
    return hashlib.sha256(code.encode()).hexdigest()
