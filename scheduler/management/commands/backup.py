"""Command: write the database to one file while everything runs."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduler.management.backup import BackupError, backup_write


class Command(BaseCommand):
    """``manage.py backup FILE``."""

    help = "Write the database to FILE (mode 0600). Logs and checkpoints of jobs lie in the shared directory."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            self.stdout.write(f"{options['file']}: {backup_write(options['file'])}.")
        except BackupError as error:
            raise CommandError(str(error)) from None
