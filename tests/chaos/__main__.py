"""``make chaos MINUTES=10 SEED=1 [POSTGRES=1]``: one run; its result goes to ``benchmarks/results``."""

import argparse
import json
import os
import sys
import tempfile
from pathlib import Path

import django

from benchmarks.__main__ import RESULTS, machine
from tests.chaos.results import results_at


def main() -> int:
    """Run once; return 1 where something happened that must not."""
    parser = argparse.ArgumentParser(prog="make chaos")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--postgres", action="store_true", help="on a PostgreSQL of its own, which is restarted too")
    parser.add_argument("--to", type=Path, help="chaos.json or chaos-postgres.json, if it is not said")
    told = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="chaos-settings-") as folder:
        # The checkers of tests/faults name states by models; the product that is broken has a folder of its own.
        os.environ |= {"DJANGO_SETTINGS_MODULE": "clusterweb.settings", "VAR_DIR": folder}
        django.setup()
        return _run(told)


def _run(told: argparse.Namespace) -> int:
    from tests.chaos.judge import violations
    from tests.chaos.run import ChaosRun

    where = machine()
    found = ChaosRun(seed=told.seed, minutes=told.minutes, on_postgres=told.postgres).run()
    to = told.to or RESULTS / results_at("chaos", on_postgres=told.postgres)
    to.write_text(json.dumps({"machine": where, "result": found}, indent=1) + "\n")
    print(json.dumps({name: value for name, value in found.items() if name != "log"}, indent=1))
    broken = violations(found)
    print(f"broken: {', '.join(broken)}" if broken else "nothing was broken")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
