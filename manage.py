#!/usr/bin/env python
"""Run a Django command."""

import os
import signal
import sys
from contextlib import suppress

INTERRUPTED = 130
# Commands that need nothing of the product, no settings and no models: without those they start in a third of the time.
ALONE = {"simulate"}


def main() -> None:
    """Point Django at the settings and run the command line; Ctrl-C ends it without a traceback at any moment."""
    # Not where a shell has set Ctrl-C to be ignored, as for what it runs in the background.
    is_heard = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if is_heard:
        signal.signal(signal.SIGINT, _leave)
    try:
        if sys.argv[1:2] and sys.argv[1] in ALONE:
            _run_alone(sys.argv[1], is_heard=is_heard)
        else:
            _run(is_heard=is_heard)
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        if is_heard:
            signal.signal(signal.SIGINT, _leave)


def _run_alone(name: str, *, is_heard: bool) -> None:
    """Run a command that needs nothing of the product."""
    from django.conf import settings
    from django.core.management import load_command_class

    settings.configure()
    command = load_command_class("scheduler", name)
    if is_heard:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    command.run_from_argv(sys.argv)


def _run(*, is_heard: bool) -> None:
    """Run a command of the product, or of Django."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "clusterweb.settings")
    from clusterweb.config.env_error import EnvError

    try:
        from django.core.management import BaseCommand, ManagementUtility

        class Utility(ManagementUtility):
            def fetch_command(self, subcommand: str) -> BaseCommand:
                """Return the command, which from here on decides itself what Ctrl-C does."""
                command = super().fetch_command(subcommand)
                if is_heard:
                    signal.signal(signal.SIGINT, signal.default_int_handler)
                return command

        Utility(sys.argv).execute()
    except EnvError as error:
        sys.exit(str(error))


def _leave(*_: object) -> None:
    """End at once: imports and the end of the interpreter lose a KeyboardInterrupt, or print it."""
    with suppress(Exception):
        sys.stdout.flush()
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    main()
