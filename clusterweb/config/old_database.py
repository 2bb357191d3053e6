"""Tells a database of a version that cannot be brought up to date."""

from django.db.migrations.loader import MigrationLoader


def is_too_old(loader: MigrationLoader) -> bool:
    """Return whether a database has only some of the migrations that one of ours replaces.

    Django leaves such a migration out, and would apply those behind it.
    """
    replacing = [key for key, found in loader.disk_migrations.items() if key[0] == "scheduler" and found.replaces]
    return any(key not in loader.graph.nodes for key in replacing)
