"""Command: restore the database from a backup."""

from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduler.management.backup import BackupError, backup_restore
from scheduler.ports import live_ports


class Command(BaseCommand):
    """``manage.py restore FILE``."""

    help = "Restore the database from FILE. Scheduling is paused afterwards: look at it, then let it go on."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--replace", action="store_true", help="give up the jobs that are in the database now")

        parser.add_argument(
            "--now",
            action="store_true",
            help="do not wait for three periods without a round: nothing but the database runs any more",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            at = live_ports().clock.now()
            found = backup_restore(options["file"], replace=options["replace"], now=options["now"], at=at)
        except BackupError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"{found}. Scheduling is paused: look at the pages, then let it go on under Admin.")
