"""Who may write: every service asks here first, and whoever is not named is refused."""

from typing import Final

from scheduler.core.model.errors import NotAllowed
from scheduler.selectors.visibility import Actor, is_admin


class Operator:
    """Whoever runs a management command on the machine of the control plane; trusted like an admin.

    A class of its own, not None: a request that somehow lost its user must never pass for the operator.
    """

    username: Final = "operator"


OPERATOR: Final = Operator()
Doer = Actor | Operator


def actor_name(actor: Doer) -> str:
    """Return how events name who did it."""
    return actor.username


def require_admin(actor: Doer, action: str) -> None:
    """Raise NotAllowed unless ``actor`` is an admin or the operator; ``action`` completes "Only an admin may"."""
    if not isinstance(actor, Operator) and not is_admin(actor):
        raise NotAllowed(f"Only an admin may {action}.")
