"""Command: write measured profiles to a file that a replay can use."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from scheduler.selectors.jobs.profiles import profiles_measured


class Command(BaseCommand):
    """``manage.py export_profiles measured.json``"""

    help = "Write all measured profiles as JSON in the format of fixtures/profiles/synergy.json."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="written anew")

    def handle(self, *args: Any, **options: Any) -> None:
        """Write the file."""
        found, file = profiles_measured(), options["file"]
        try:
            file.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        except OSError as error:
            raise CommandError(f"{file} cannot be written: {error.strerror}.") from None
        self.stdout.write(f"{len(found)} profiles written to {file}")
