"""The migrations make the tables that the models describe."""

import pytest
from django.core.management import call_command


@pytest.mark.django_db
def test_models_and_migrations_say_the_same() -> None:
    """A changed model comes with its migration."""
    call_command("makemigrations", check_changes=True, dry_run=True, verbosity=0)
