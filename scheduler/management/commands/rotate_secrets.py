"""Encrypts every secret with a new key: ``manage.py rotate_secrets``."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError

from scheduler.core.model.errors import SchedulerError
from scheduler.core.spec.units import counted
from scheduler.services.secrets.crypt import keys_rotate


class Command(BaseCommand):
    """Make a new key for secrets and encrypt them anew; everything may run meanwhile."""

    help = "Encrypt the secrets of users and queues with a new key, or with the newest of SECRETS_KEYS."

    def handle(self, **_: Any) -> None:
        """Rotate, and say which key is in use now."""
        try:
            number, count = keys_rotate()
        except SchedulerError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(
            f"{counted(count, 'secret')} {'is' if count == 1 else 'are'} encrypted with key {number}. "
            "Keep a copy of the keys apart from backups."
        )
