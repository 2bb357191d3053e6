"""How many live pages and log streams one user holds open, over all web processes.

Each connection holds a slot of its user in the shared cache and renews it while it lives, so that the slots of a
process that was killed end by themselves. Held right by ``tests/integration/services/test_open_connections.py``.
"""

import secrets

from django.core.cache import caches

SLOT_S = 60
RENEWED_EVERY_S = 15.0


class ConnectionSlot:
    """One of the connections of a kind that a user may hold open."""

    def __init__(self, kind: str, user_id: object, *, most: int) -> None:
        self._keys = [f"open.{kind}.{user_id}.{number}" for number in range(most)]
        self._key = ""
        self._owner = secrets.token_hex(8)

    def take(self) -> bool:
        """Return whether one was free; it is held until ``give_back``, or SLOT_S after the last ``renew``."""
        cache = caches["shared"]
        taken = cache.get_many(self._keys)
        free = (key for key in self._keys if key not in taken)
        self._key = next((key for key in free if cache.add(key, self._owner, SLOT_S)), "")
        return bool(self._key)

    def renew(self) -> None:
        """Hold it for longer. One that was lost, as with the broker's memory, is taken anew if one is free."""
        if not (self._is_own() and caches["shared"].touch(self._key, SLOT_S)):
            self.take()

    def give_back(self) -> None:
        """Let another connection have it."""
        if self._is_own():
            caches["shared"].delete(self._key)

    def _is_own(self) -> bool:
        return bool(self._key) and caches["shared"].get(self._key) == self._owner
