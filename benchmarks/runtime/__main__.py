"""Measure one part or all of the runtime and write ``docs/runtime.md``: ``python -m benchmarks.runtime [part ...]``.

A part is a module of this package with ``TITLE`` and ``figures() -> Sequence[Figure]``. With names only those are
measured; the page keeps the others as they were, from ``benchmarks/results/runtime-<part>.json``.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from importlib import import_module
from pathlib import Path

PARTS = ("slicing", "gangs", "launches", "packing", "profiler", "cache", "ralp", "search", "failures", "gpu")
PAGE = Path("docs/runtime.md")
CURVE_ROWS = 10
RESULTS = Path("benchmarks/results")

INTRODUCTION = """# What the runtime does to running jobs, measured

Written by `python -m benchmarks.runtime`; every figure was measured by it on real processes, on CPU slots unless a row
names a GPU. Seconds depend on the machine: each part says when and on how many cores it ran, and how busy these were
(load average over one minute at the start).
"""


def measure(part: str) -> dict[str, object]:
    """Measure one part."""
    module = import_module(f"benchmarks.runtime.{part}")
    began, load = datetime.now(UTC), os.getloadavg()[0]
    figures = [asdict(figure) for figure in module.figures()]
    return {
        "title": module.TITLE,
        "measured_at": began.strftime("%Y-%m-%d %H:%M"),
        "cores": os.cpu_count(),
        "load": round(load, 1),
        "figures": figures,
    }


def page() -> str:
    """Return the page, in Markdown, from the parts measured so far."""
    text = [INTRODUCTION]
    for part in PARTS:
        path = RESULTS / f"runtime-{part}.json"
        if not path.exists():
            continue
        data = json.loads(path.read_text(encoding="utf-8"))
        text.append(f"\n## {data['title']}\n\n`python -m benchmarks.runtime {part}`, {data['measured_at']} UTC, ")
        text.append(f"{data['cores']} cores, load {data['load']:g}.\n\n")
        text.append("| figure | target | measured | kept | setting | note |\n|---|---|---|---|---|---|\n")
        for figure in data["figures"]:
            kept = {True: "yes", False: "**no**", None: ""}[figure["is_met"]]
            cells = (figure["name"], figure["target"], figure["value"], kept, figure["setting"], figure["note"])
            text.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |\n")
        text += [_curves(figure["curves"]) for figure in data["figures"] if figure.get("curves")]
    return "".join(text)


def _curves(curves: Mapping[str, Sequence[Sequence[float]]]) -> str:
    """Return a table of what curves had come to after some times, which are of equal distance."""
    last_s = max(points[-1][0] for points in curves.values())
    times_s = [last_s * part / CURVE_ROWS for part in range(1, CURVE_ROWS + 1)]
    lines = ["", "| seconds | " + " | ".join(curves) + " |", "|---" * (1 + len(curves)) + "|"]
    for at_s in times_s:
        known = [[value for seen_s, value in points if seen_s <= at_s] for points in curves.values()]
        cells = (f"{values[-1]:.3g}" if values else "" for values in known)
        lines.append(f"| {at_s:.0f} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def main(names: Sequence[str]) -> None:
    """Measure the named parts, or all that there are, one after the other, and write the page."""
    unknown = sorted(set(names) - set(PARTS))
    if unknown:
        sys.exit(f"There is no {', '.join(unknown)}. There is {', '.join(PARTS)}.")
    there = [part for part in PARTS if Path(__file__).with_name(f"{part}.py").exists()]
    for part in names or there:
        result = measure(part)
        (RESULTS / f"runtime-{part}.json").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
        print(f"{part} measured", flush=True)
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
