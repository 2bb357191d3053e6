"""What may be tried on running jobs. Each is one file and one line here."""

from scheduler.core.config import Introspection

INTROSPECTIONS: dict[str, type[Introspection]] = {}
