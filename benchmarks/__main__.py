"""Run the benchmarks of this folder and write their results: ``make bench``.

    python -m benchmarks [NAME | NAME.PART ...]

Each ``bench_<name>.py`` has a ``QUESTION`` and ``run() -> dict`` (JSON), or ``PARTS``, names of such functions, where
all together take long; each part is written as soon as it is done. Results go to ``benchmarks/results`` as JSON with a
description of the machine.
"""

import importlib
import json
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results"

Json = dict[str, Any]


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
    """Run the named benchmarks and parts, or all."""
    RESULTS.mkdir(exist_ok=True)
    for path in sorted(HERE.glob("bench_*.py")):
        name = path.stem.removeprefix("bench_")
        asked = {one.partition(".")[2] for one in names if one.partition(".")[0] == name}
        if names and not asked:
            continue
        module = importlib.import_module(f"benchmarks.{path.stem}")
        parts: dict[str, Callable[[], Json]] = getattr(module, "PARTS", {})
        if not parts:
            answer(name, module.QUESTION, module.run)
        for part in parts:
            if not names or "" in asked or part in asked:
                answer(name, module.QUESTION, parts[part], part=part)
    return 0


def answer(name: str, question: str, run: Callable[[], Json], *, part: str = "") -> None:
    """Run a benchmark, or one part of it, and write what came out."""
    print(f"{f'{name}.{part}' if part else name}: {question}", flush=True)
    file = RESULTS / f"{name}.json"
    before = machine()
    found = {"machine": before, "result": run()}
    print(json.dumps(found["result"], indent=2), flush=True)
    if part:
        others = json.loads(file.read_text())["parts"] if file.exists() else {}
        found = {"parts": others | {part: found}}
    file.write_text(json.dumps({"question": question} | found, indent=2) + "\n")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
