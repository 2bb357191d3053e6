"""What an error says: whether broker or database is away, and the words that an admin reads."""

from django.db import InterfaceError, OperationalError, connection

CHARS = 300


def is_away(error: Exception) -> bool:
    """Return whether broker or database cannot be reached; a deadlock or a lock that is not free is less than that."""
    if isinstance(error, OperationalError):
        return not connection.is_usable()
    return isinstance(error, ConnectionError | InterfaceError)


def described(error: Exception) -> str:
    """Return what an admin reads of a failure."""
    return f"{type(error).__name__}: {error}".replace("\x00", "")[:CHARS]
