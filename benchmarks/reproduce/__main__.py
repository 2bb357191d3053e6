"""Run every reproduction and write ``docs/results.md``: ``python -m benchmarks.reproduce [paper ...]``.

With names only those papers run and the page keeps the others as they were. ``fidelity`` measures this machine, so it
runs alone and only when it is named.
"""

import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

# Not defined here: a new process cannot find again what belongs to a package's __main__.
from benchmarks.reproduce.part import Part, run_paper

PAPERS = ("synergy", "drf_tetris", "philly", "tiresias", "gandiva", "afs", "themis", "optimus", "minio")
FIDELITY = "fidelity"
PAGE_ORDER = (*PAPERS, FIDELITY)
PAGE = Path("docs/results.md")
RESULTS = Path("benchmarks/results/reproduce.json")

INTRODUCTION = """# Published figures and ours

Written by `make reproduce`; every number below was computed by it. One part: `python -m benchmarks.reproduce NAME`.
A ratio is ours over published. Nothing was tuned to a published number; where we differ, the note says why.
Randomness is seeded: the same version gives the same page, timings aside.
"""


def page(parts: dict[str, Part]) -> str:
    """Return the page in Markdown."""
    text = [INTRODUCTION]
    for name in PAGE_ORDER:
        if name not in parts:
            continue
        part = parts[name]
        text.append(f"\n## {part['title']}\n\n{part['source']} Command: `python -m benchmarks.reproduce {name}`, ")
        text.append(f"{part['cpu_s']:g} s of CPU.\n\n| figure | published | ours | ratio | setting | note |\n")
        text.append("|---|---|---|---|---|---|\n")
        for row in part["rows"]:
            ratio = "" if row["ratio"] is None else f"{row['ratio']:.2f}"
            cells = (row["figure"], row["published"], row["ours"], ratio, row["setting"], row["note"])
            text.append("| " + " | ".join(str(cell).replace("|", "\\|") for cell in cells) + " |\n")
    return "".join(text)


def main(names: Sequence[str]) -> None:
    """Run the named papers, or all, and write the page."""
    unknown = sorted(set(names) - set(PAGE_ORDER))
    if unknown:
        sys.exit(f"There is no {', '.join(unknown)}. There is {', '.join(PAGE_ORDER)}.")
    if FIDELITY in names and len(names) > 1:
        sys.exit(f"{FIDELITY} measures this machine: run it alone.")
    chosen = [name for name in PAGE_ORDER if name in (names or PAPERS)]
    new: dict[str, Part] = {}
    with ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn")) as pool:
        for name, part in zip(chosen, pool.map(run_paper, chosen), strict=True):
            new[name] = part
            print(f"{name}: {len(part['rows'])} figures, {part['cpu_s']:g} s of CPU", flush=True)
    # Read only now: another run may have written its papers meanwhile.
    old: dict[str, Part] = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    parts = old | new
    RESULTS.write_text(
        json.dumps({name: parts[name] for name in PAGE_ORDER if name in parts}, indent=1) + "\n", "utf-8"
    )
    PAGE.write_text(page(parts), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
