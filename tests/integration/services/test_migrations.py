"""The migrations make the tables that the models describe."""

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.migrations.executor import MigrationExecutor
from django.db.migrations.recorder import MigrationRecorder


@pytest.mark.django_db
def test_models_and_migrations_say_the_same() -> None:
    """A changed model comes with its migration."""
    call_command("makemigrations", check_changes=True, dry_run=True, verbosity=0)


@pytest.mark.django_db
def test_database_that_was_made_step_by_step_needs_nothing_more() -> None:
    """The migrations that the first one took the place of count as it, so an older installation starts."""
    loader = MigrationExecutor(connection).loader
    first = loader.graph.root_nodes("scheduler")[0]
    assert len(loader.get_migration(*first).replaces) == 21
    MigrationRecorder(connection).record_unapplied(*first)

    after = MigrationExecutor(connection)

    assert after.migration_plan(after.loader.graph.leaf_nodes()) == []
