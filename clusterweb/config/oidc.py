"""Settings of sign-in by OpenID Connect, read from the environment. Active exactly when ``OIDC_ISSUER`` is set."""

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from clusterweb.config.env_error import LOOPBACK, EnvError

ROLES = ("viewer", "member", "lead")
ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRole:
    """What members of a group of the provider may do here.

    Attributes:
        group: As the provider names it.
        role: ``admin``, or a role in ``queue``.
        queue: Empty for ``admin``.
    """

    group: str
    role: str
    queue: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Oidc:
    """One provider.

    Attributes:
        issuer: Its address, exactly as it writes itself into its tokens.
        client_id, client_secret: As it knows us.
        label: What the button on the sign-in page says.
        groups_claim: Name of the claim that lists a user's groups.
        roles: What the groups mean here.
        domains: Only verified addresses of exactly these domains may sign in; empty: every user whom the provider lets.
    """

    issuer: str
    client_id: str
    client_secret: str
    label: str
    groups_claim: str
    roles: tuple[GroupRole, ...]
    domains: frozenset[str]


def load_oidc(source: Mapping[str, str]) -> Oidc | None:
    """Return the provider of the environment, if one is set.

    Raises:
        EnvError: If a value is missing or malformed.
    """
    issuer = source.get("OIDC_ISSUER", "").strip()
    if not issuer:
        return None
    parts = urlsplit(issuer)
    if not parts.hostname or not (parts.scheme == "https" or parts.hostname in LOOPBACK):
        raise EnvError(f"OIDC_ISSUER={issuer!r} cannot be used: it must be an https:// URL.")
    missing = [name for name in ("OIDC_CLIENT_ID", "OIDC_CLIENT_SECRET") if not source.get(name)]
    if missing:
        raise EnvError(f"OIDC_ISSUER is set, so {' and '.join(missing)} must be set as well.")
    return Oidc(
        issuer=issuer,
        client_id=source["OIDC_CLIENT_ID"],
        client_secret=source["OIDC_CLIENT_SECRET"],
        label=source.get("OIDC_LABEL", "") or f"Sign in with {parts.hostname}",
        groups_claim=source.get("OIDC_GROUPS_CLAIM", "") or "groups",
        roles=tuple(_role(part) for part in source.get("OIDC_ROLES", "").split(",") if part.strip()),
        domains=frozenset(part.strip().lower() for part in source.get("OIDC_DOMAINS", "").split(",") if part.strip()),
    )


def _role(text: str) -> GroupRole:
    """Return one entry of OIDC_ROLES: ``group=admin`` or ``group=role:queue``."""
    group, _, given = (part.strip() for part in text.partition("="))
    role, _, queue = given.partition(":")
    if group and given == ADMIN:
        return GroupRole(group=group, role=ADMIN)
    if not (group and queue and role in ROLES):
        right = "entries such as ops=admin,vision-team=member:vision with the roles viewer, member and lead"
        raise EnvError(f"OIDC_ROLES has {text.strip()!r}, which cannot be used: it must hold {right}.")
    return GroupRole(group=group, role=role, queue=queue)
