"""Answer every question of this folder and write the answers: ``make bench``.

    python -m benchmarks [NAME ...]

Each ``bench_<name>.py`` has a ``QUESTION`` and ``run() -> dict`` (JSON). Results go to ``benchmarks/results`` as JSON
together with what the machine was, because a figure without its machine says little.
"""

import importlib
import json
import os
import platform
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent


def machine() -> dict[str, object]:
    """Return what the figures were measured on."""
    return {
        "cores": len(os.sched_getaffinity(0)),
        "load_1min": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "system": platform.platform(),
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def main(names: list[str]) -> int:
    """Run the named benchmarks, or all."""
    results = HERE / "results"
    results.mkdir(exist_ok=True)
    for path in sorted(HERE.glob("bench_*.py")):
        name = path.stem.removeprefix("bench_")
        if names and name not in names:
            continue
        module = importlib.import_module(f"benchmarks.{path.stem}")
        print(f"{name}: {module.QUESTION}", flush=True)
        before = machine()
        answer = {"question": module.QUESTION, "machine": before, "result": module.run()}
        (results / f"{name}.json").write_text(json.dumps(answer, indent=2) + "\n")
        print(json.dumps(answer["result"], indent=2), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
