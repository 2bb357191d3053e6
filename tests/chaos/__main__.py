"""``make chaos MINUTES=10 SEED=1 [POSTGRES=1]``: one run; its result goes to ``benchmarks/results/chaos.json``."""

import argparse
import json
import sys
from pathlib import Path

from benchmarks.__main__ import RESULTS, machine
from tests.chaos.run import ChaosRun, violations


def main() -> int:
    """Run once; return 1 where something happened that must not."""
    parser = argparse.ArgumentParser(prog="make chaos")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--postgres", action="store_true", help="on a PostgreSQL of its own, which is restarted too")
    parser.add_argument("--to", type=Path, default=RESULTS / "chaos.json")
    told = parser.parse_args()
    where = machine()
    found = ChaosRun(seed=told.seed, minutes=told.minutes, on_postgres=told.postgres).run()
    told.to.write_text(json.dumps({"machine": where, "result": found}, indent=1) + "\n")
    print(json.dumps({name: value for name, value in found.items() if name != "log"}, indent=1))
    broken = violations(found)
    print(f"broken: {', '.join(broken)}" if broken else "nothing was broken")
    return bool(broken)


if __name__ == "__main__":
    sys.exit(main())
