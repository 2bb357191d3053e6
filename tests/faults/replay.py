"""Repeats one run under faults, outside pytest: ``python -m tests.faults.replay SEED [SECONDS OF FAULTS] [WORDS]``.

The words are ``turns``, ``secrets`` and ``preparing``. Prints what the run was, or the last lines of its trace and
what was violated.
"""

import logging
import sys

import tests.conftest  # noqa: F401  (a private state directory, and the settings)

from django.test.runner import DiscoverRunner  # isort: skip
from tests.faults.preparing.preparing_run import prepared  # isort: skip
from tests.faults.run import STRIKE_S, FaultRun, clean_database  # isort: skip


def main(arguments: list[str]) -> int:
    """Run the seed that is named."""
    logging.disable(logging.CRITICAL)
    seed, strike_s = int(arguments[0]), float(arguments[1]) if len(arguments) > 1 else STRIKE_S
    DiscoverRunner(verbosity=0, interactive=False).setup_databases()
    with clean_database():
        if "preparing" in arguments:
            print(prepared(seed, strike_s=strike_s))
        else:
            turns, secrets = "turns" in arguments, "secrets" in arguments
            print(FaultRun(seed, strike_s=strike_s, takes_turns=turns, names_secrets=secrets).run())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
