"""The error of a bad environment variable; a file of its own, as all of ``config`` raises it."""

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


class EnvError(Exception):
    """A variable has a value that cannot be used; the message names it and says what would be right."""
