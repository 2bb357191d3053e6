"""Command: create the broker users of web, scheduler and simulations, and remove those of servers that are no more."""

import os
from typing import Any

import redis
from django.conf import settings
from django.core.management.base import BaseCommand, CommandError
from django.db import DatabaseError

from scheduler.management.broker_users import PROCESSES, processes_make, users_remove
from scheduler.models import Server

LEAST_CHARS = 16


class Command(BaseCommand):
    """``REDIS_URL=... REDIS_WEB_PASSWORD=... manage.py broker_users``, before the processes are started."""

    help = (
        "Create or renew the users of web, scheduler and simulations at the broker REDIS_URL, as its admin. Their "
        "passwords are REDIS_WEB_PASSWORD, REDIS_SCHEDULER_PASSWORD and REDIS_SIMULATIONS_PASSWORD. Users of removed "
        "servers go."
    )

    def handle(self, *args: Any, **options: Any) -> None:
        passwords = {}
        for name in PROCESSES:
            variable = f"REDIS_{name.upper()}_PASSWORD"
            # Nothing else needs them, so they are no settings.
            passwords[name] = os.environ.get(variable, "")
            if len(passwords[name]) < LEAST_CHARS:
                raise CommandError(f"{variable} must have at least {LEAST_CHARS} characters.")
        try:
            processes_make(passwords, redis_url=settings.REDIS_URL)
            servers = _servers()
            gone = [] if servers is None else users_remove(but=servers, redis_url=settings.REDIS_URL)
        except redis.RedisError as error:
            raise CommandError(f"The users could not be made at the broker: {error}.") from None
        self.stdout.write(f"{', '.join(PROCESSES)} have a user each at the broker.")
        if gone:
            self.stdout.write(f"The users of {', '.join(gone)} are removed: these servers are no more.")


def _servers() -> set[str] | None:
    """Return the ids of all servers; None before the migrations, which the command may come before."""
    try:
        return set(Server.objects.values_list("pk", flat=True))
    except DatabaseError:
        return None
