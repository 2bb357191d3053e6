#!/usr/bin/env python
"""Run a Django command."""

import os
import sys


def main() -> None:
    """Point Django at the settings and run the command line."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "clusterweb.settings")
    from clusterweb.config.env_error import EnvError

    try:
        from django.core.management import execute_from_command_line

        execute_from_command_line(sys.argv)
    except EnvError as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
