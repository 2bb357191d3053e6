"""Who may write: every service checks here first; what is not allowed is refused."""

from typing import Final

from scheduler.core.model.errors import NotAllowed
from scheduler.selectors.visibility import Actor, is_admin


class Operator:
    """The person who runs a management command on the control plane's machine; trusted like an admin.

    A class of its own, not None: a request that somehow lost its user must never pass for the operator.
    """

    username: Final = "operator"


OPERATOR: Final = Operator()
Doer = Actor | Operator


def actor_name(actor: Doer) -> str:
    """Return the name of the actor as events keep it."""
    return actor.username


def require_admin(actor: Doer, action: str) -> None:
    """Raise NotAllowed unless ``actor`` is an admin or the operator; ``action`` completes "Only an admin may"."""
    if not isinstance(actor, Operator) and not is_admin(actor):
        raise NotAllowed(f"Only an admin may {action}.")
